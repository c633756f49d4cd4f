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

// mlx::core::get_streams(), synchronize(Stream), scheduler::scheduler(), by the Itanium C++ ABI, which
// both systems have.
constexpr char kGetStreams[] = "_ZN3mlx4core11get_streamsEv";
constexpr char kSynchronize[] = "_ZN3mlx4core11synchronizeENS0_6StreamE";
constexpr char kScheduler[] = "_ZN3mlx4core9scheduler9schedulerEv";

struct Dry {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_so = false;
};

}  // namespace

MlxStreams MlxStreams::Find(const void* caller) {
  MlxStreams found;
  Dl_info library;
  if (::dladdr(caller, &library) == 0 || library.dli_fname == nullptr) return found;
  // It is loaded already; this handle is kept for the life of the process.
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

// On a thread of its own, which may wait for ever: then it ends with the process.
bool MlxStreams::RunDry(std::chrono::seconds most) const {
  if (get_streams_ == nullptr) return true;
  const auto dry = std::make_shared<Dry>();
  const auto run = [get_streams = get_streams_, synchronize = synchronize_, dry] {
    try {
      for (const Stream& stream : get_streams()) {
        try {
          synchronize(stream);
        } catch (const std::exception& error) {  // An operation's error.
          std::fprintf(stderr, "mlxcomm: at the end of the program: %s\n", error.what());
        }
      }
    } catch (const std::exception& error) {  // No memory.
      std::fprintf(stderr, "mlxcomm: at the end of the program: %s\n", error.what());
    }
    const std::lock_guard lock(dry->mutex);
    dry->is_so = true;
    dry->changed.notify_all();
  };
  try {
    std::thread(run).detach();
  } catch (const std::exception&) {  // No thread is available.
    return false;
  }
  std::unique_lock lock(dry->mutex);
  return dry->changed.wait_for(lock, most, [&dry] { return dry->is_so; });
}

}  // namespace mlxcomm::mpi
