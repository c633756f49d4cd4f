#include "client/mpi/mlx_streams.h"

#include <dlfcn.h>

#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace mlxcomm::mpi {
namespace {

// mlx::core::get_streams(), synchronize(Stream), scheduler::scheduler(), mangled by the Itanium C++ ABI.
constexpr char kGetStreams[] = "_ZN3mlx4core11get_streamsEv";
constexpr char kSynchronize[] = "_ZN3mlx4core11synchronizeENS0_6StreamE";
constexpr char kScheduler[] = "_ZN3mlx4core9scheduler9schedulerEv";

struct Finished {
  std::mutex mutex;
  std::condition_variable changed;
  bool value = false;
};

}  // namespace

MlxStreams MlxStreams::Find(const void* caller) {
  MlxStreams found;
  Dl_info library;
  if (::dladdr(caller, &library) == 0 || library.dli_fname == nullptr) return found;
  // It is loaded already; the handle is never closed.
  void* const mlx = ::dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (mlx == nullptr) return found;
  using GetStreams = std::vector<Stream> (*)();
  using Synchronize = void (*)(Stream);
  using Scheduler = void* (*)();
  const auto get_streams = reinterpret_cast<GetStreams>(::dlsym(mlx, kGetStreams));
  const auto synchronize = reinterpret_cast<Synchronize>(::dlsym(mlx, kSynchronize));
  const auto scheduler = reinterpret_cast<Scheduler>(::dlsym(mlx, kScheduler));
  if (get_streams == nullptr || synchronize == nullptr || scheduler == nullptr) return found;
  scheduler();
  get_streams();
  found.get_streams_ = get_streams;
  found.synchronize_ = synchronize;
  return found;
}

// The work runs on another thread, which may block until the process ends.
bool MlxStreams::AwaitEnd(std::chrono::seconds most) const {
  if (get_streams_ == nullptr) return true;
  const auto finished = std::make_shared<Finished>();
  const auto run = [get_streams = get_streams_, synchronize = synchronize_, finished] {
    try {
      for (const Stream& stream : get_streams()) {
        try {
          synchronize(stream);
        } catch (const std::exception& error) {  // An operation failed.
          std::fprintf(stderr, "mlxcomm: at exit: %s\n", error.what());
        }
      }
    } catch (const std::exception& error) {  // Out of memory.
      std::fprintf(stderr, "mlxcomm: at exit: %s\n", error.what());
    }
    const std::lock_guard lock(finished->mutex);
    finished->value = true;
    finished->changed.notify_all();
  };
  try {
    std::thread(run).detach();
  } catch (const std::exception&) {  // No thread is available.
    return false;
  }
  std::unique_lock lock(finished->mutex);
  return finished->changed.wait_for(lock, most, [&finished] { return finished->value; });
}

}  // namespace mlxcomm::mpi
