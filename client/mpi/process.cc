#include "client/mpi/process.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "client/lib/interrupt.h"
#include "client/lib/pending_sends.h"
#include "client/mpi/mlx_streams.h"

namespace mlxcomm::mpi {
namespace {

struct Process {
  std::mutex joining;  // Locked before `mutex`, which no thread holds while it waits.
  std::mutex mutex;
  bool exiting = false;
  pid_t joined_by = 0;
  int calls = 0;  // In progress.
  std::shared_ptr<Communicator> world;
  std::map<const void*, std::shared_ptr<Communicator>> parts;  // By address.
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
