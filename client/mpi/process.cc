#include "client/mpi/process.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/lib/interrupt.h"
#include "client/lib/pending_sends.h"

namespace mlxcomm::mpi {
namespace {

// Waits at exit until the calling MLX has finished its streams' work. A program may exit with
// operations queued that MLX has not passed to MPI yet (mx.async_eval), and other ranks still need
// them. This uses three functions of MLX's public C++ interface (mlx/stream.h, mlx/scheduler.h),
// found in the library that called MPI_Init; without them it does nothing.
class MlxStreams {
 public:
  // MLX's layout, because it is passed by value.
  struct Stream {
    int index;
    int device_type;
    int device_index;
  };

  MlxStreams() = default;
  // Looks in the library that contains `caller`. This creates MLX's scheduler and list of streams,
  // so that exit handlers registered later run before these are destroyed.
  static MlxStreams Find(const void* caller);

  // Waits at most this long, and returns whether MLX has finished.
  bool AwaitEnd(std::chrono::seconds most) const;

 private:
  std::vector<Stream> (*get_streams_)() = nullptr;
  void (*synchronize_)(Stream) = nullptr;
};

// mlx::core::get_streams(), synchronize(Stream), scheduler::scheduler(), mangled by the Itanium C++
// ABI.
constexpr char kGetStreams[] = "_ZN3mlx4core11get_streamsEv";
constexpr char kSynchronize[] = "_ZN3mlx4core11synchronizeENS0_6StreamE";
constexpr char kScheduler[] = "_ZN3mlx4core9scheduler9schedulerEv";

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
  std::promise<void> finished;
  const std::future<void> end = finished.get_future();
  auto run = [get_streams = get_streams_, synchronize = synchronize_,
              finished = std::move(finished)]() mutable {
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
    finished.set_value();
  };
  try {
    std::thread(std::move(run)).detach();
  } catch (const std::exception&) {  // No thread is available.
    return false;
  }
  return end.wait_for(most) == std::future_status::ready;
}

struct Process {
  std::mutex joining;  // Locked before `mutex`, which no thread holds while it waits.
  std::mutex mutex;
  bool exiting = false;
  pid_t joined_by = 0;
  int calls = 0;  // Calls in progress.
  std::shared_ptr<Communicator> world;
  std::map<const void*, std::shared_ptr<Communicator>> parts;  // Keyed by address.
  MlxStreams streams;                                          // Set before the exit handler.
  std::atomic<bool> gave_up = false;                           // Stopped waiting for the streams.
};
Process& GetProcess() {
  static Process* const process = new Process;
  return *process;
}

struct Held {
  std::shared_ptr<Communicator> world;
  std::map<const void*, std::shared_ptr<Communicator>> parts;
};

// Takes everything out of the tables, unless a call is in progress or this is a forked child.
Held TakeAll(Process& process) {
  const std::lock_guard lock(process.mutex);
  if (process.calls > 0 || process.joined_by != ::getpid()) return {};
  return {std::exchange(process.world, nullptr), std::exchange(process.parts, {})};
}

// After an exception the process may have operations that other ranks will never call.
constexpr std::chrono::seconds kStreamsMax{20};

void AwaitStreams(Process& process) {
  if (process.gave_up || process.joined_by != ::getpid()) return;
  const client::UnderWay under_way;
  const bool finished = process.streams.AwaitEnd(kStreamsMax);
  client::AwaitSends();
  if (finished) return;
  process.gave_up = true;
  std::fprintf(stderr, "mlxcomm: no longer waiting for operations, %d s after the program's end\n",
               static_cast<int>(kStreamsMax.count()));
}

void Exit() {
  Process& process = GetProcess();
  AwaitStreams(process);
  {
    const std::lock_guard lock(process.mutex);
    process.exiting = true;
  }
  const Held held = TakeAll(process);
}

std::shared_ptr<Communicator> JoinWorld() {
  const mlxcomm_place place = FindPlace();
  if (place.size == 1) return std::make_shared<Communicator>();
  const client::UnderWay under_way;
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  options.interrupted = client::WasInterrupted;
  auto connection = std::make_shared<Connection>(options);
  Group world(*connection, place);
  return std::make_shared<Communicator>(std::move(connection), std::move(world), nullptr);
}

}  // namespace

void Join(const void* caller) {
  Process& process = GetProcess();
  const std::lock_guard joining(process.joining);
  {
    const std::lock_guard lock(process.mutex);
    if (process.exiting) throw std::runtime_error("MPI_Init: the process is exiting");
    if (process.world != nullptr) return;
  }
  std::shared_ptr<Communicator> world = JoinWorld();
  static const int registered = [&] {
    process.streams = MlxStreams::Find(caller);
    return std::atexit(Exit);
  }();
  (void)registered;  // If the table is full, the daemon sees the process die.
  const std::lock_guard lock(process.mutex);
  process.world = std::move(world);
  process.joined_by = ::getpid();
}

void Leave() noexcept {
  Process& process = GetProcess();
  {
    const std::lock_guard lock(process.mutex);
    if (process.exiting) return;
  }
  AwaitStreams(process);  // Some releases of MLX call this before Exit.
  const Held held = TakeAll(process);
}

Call::Call(MPI_Comm handle, const char* name) {
  Process& process = GetProcess();
  const std::lock_guard lock(process.mutex);
  if (process.exiting) throw std::runtime_error(std::string(name) + ": the process is exiting");
  if (process.world == nullptr) {
    throw std::runtime_error(std::string(name) +
                             ": expected MPI_Init, and no MPI_Finalize, before it");
  }
  const auto part = process.parts.find(handle);
  if (part == process.parts.end() && handle != &ompi_mpi_comm_world) {
    throw std::runtime_error(
        std::string(name) +
        ": unknown communicator handle: expected ompi_mpi_comm_world of this library, or a result "
        "of its MPI_Comm_split that is not freed");
  }
  on_ = part == process.parts.end() ? process.world : part->second;
  ++process.calls;
}

Call::~Call() {
  Process& process = GetProcess();
  on_.reset();  // May close the communicator, so without a lock.
  const std::lock_guard lock(process.mutex);
  --process.calls;
}

MPI_Comm Add(std::shared_ptr<Communicator> part) {
  Process& process = GetProcess();
  const std::lock_guard lock(process.mutex);
  void* const handle = part.get();
  process.parts.emplace(handle, std::move(part));
  return handle;
}

bool Remove(MPI_Comm handle) noexcept {
  Process& process = GetProcess();
  std::shared_ptr<Communicator> part;  // Closed after the lock is released.
  const std::lock_guard lock(process.mutex);
  if (process.exiting) return true;
  const auto found = process.parts.find(handle);
  if (found == process.parts.end()) return false;
  part = std::move(found->second);
  process.parts.erase(found);
  return true;
}

}  // namespace mlxcomm::mpi
