// The cost of calling the driver of an RDMA device in a process of its own
// (daemon/transport/rdma/driver_process.h): a message there and back, with the driver called by
// this process, and by another.
//
//   driver_benchmark [LIBRARY] [benchmark's own options]
//
// On the devices that the library has (empty: the system's own): the first two that are active, or
// the first twice. Both ends are threads of this program, as rails are threads of daemons.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "daemon/platform/machine.h"
#include "daemon/transport/rdma/driver_main.h"
#include "daemon/transport/rdma/process_device.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/queue/usable_cores.h"

namespace mlxcomm::fabric::rdma {
namespace {

std::string library_path;  // NOLINT: set once, in main.

queue::SchedulingPolicy SchedulingHere() {
  return queue::SchedulingPolicy::Choose(queue::Scheduling::kAuto, queue::UsableCores());
}
Limits LimitsHere() { return std::getenv("FAKE_VERBS_DIR") != nullptr ? Limits() : LinuxLimits(); }

// One end: spins for completions as long as a rail's thread does, then sleeps.
class End {
 public:
  explicit End(std::unique_ptr<QueuePair> pair) : pair_(std::move(pair)) {}
  QueuePair& pair() { return *pair_; }
  bool Send(std::uint32_t bytes) {
    const std::uint32_t slot = pair_->receives() + next_send_++ % pair_->sends();
    return pair_->PostSend(slot, bytes).ok();
  }
  // Until one has come, and its receive is posted again. False: stopped, or failed.
  bool Receive(const std::atomic<bool>& stop) {
    const std::uint64_t spin_ns = SchedulingHere().rail_spin_ns;
    std::uint64_t since = platform::MonotonicNow();
    while (!stop.load(std::memory_order_relaxed)) {
      bool came = false;
      if (!Take(came)) return false;
      if (came) return true;
      if (platform::MonotonicNow() - since < spin_ns) continue;
      if (!pair_->Arm().ok() || !Take(came)) return false;
      if (came) return true;
      pollfd waited{pair_->descriptor(), POLLIN, 0};
      ::poll(&waited, 1, 100);
      since = platform::MonotonicNow();
    }
    return false;
  }

 private:
  bool Take(bool& came) {
    std::array<Completion, 8> some;
    const auto count = pair_->Poll(some);
    if (!count.ok()) return false;
    for (std::size_t i = 0; i < *count; ++i) {
      if (!some[i].ok) return false;
      if (some[i].receive && !pair_->PostReceive(some[i].slot).ok()) return false;
      came = came || some[i].receive;
    }
    return true;
  }
  std::unique_ptr<QueuePair> pair_;
  std::uint32_t next_send_ = 0;
};

absl::StatusOr<std::shared_ptr<Device>> OpenIn(bool own_process, Library& library,
                                               const std::string& name) {
  if (!own_process) return library.Open(name, LimitsHere());
  return OpenInProcess(platform::OwnExecutable(), library_path, name, LimitsHere(),
                       SchedulingHere());
}

// range(0): bytes; range(1): 1: a process of its own.
void ToAndFro(benchmark::State& state) {
  const auto library = LoadLibrary(library_path);
  if (!library.ok()) return state.SkipWithError(std::string(library.status().message()).c_str());
  const auto found = (*library)->ListDevices();
  std::vector<DeviceFacts> active;
  if (found.ok()) {
    for (const DeviceFacts& facts : *found) {
      if (facts.active && !facts.gids.empty()) active.push_back(facts);
    }
  }
  if (active.empty()) return state.SkipWithError("no RDMA device is active");
  const Limits limits = LimitsHere();
  const QueuePairShape shape{limits.service, limits.message_bytes, limits.messages_max};
  std::vector<End> ends;
  std::vector<std::shared_ptr<Device>> devices;
  for (const DeviceFacts& facts : {active.front(), active.at(active.size() > 1 ? 1 : 0)}) {
    const auto device = OpenIn(state.range(1) == 1, **library, facts.name);
    if (!device.ok()) return state.SkipWithError(std::string(device.status().message()).c_str());
    devices.push_back(*device);
    auto pair = (*device)->MakeQueuePair(shape, facts.gids.back());
    if (!pair.ok()) return state.SkipWithError(std::string(pair.status().message()).c_str());
    ends.emplace_back(*std::move(pair));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const absl::Status status = ends[i].pair().Connect(ends[1 - i].pair().address());
    if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
  }
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (ends[1].Receive(stop) && ends[1].Send(bytes)) {
    }
  });
  for (auto _ : state) {
    if (ends[0].Send(bytes) && ends[0].Receive(stop)) continue;
    state.SkipWithError("a queue pair has failed");
    break;
  }
  stop.store(true);
  other.join();
  state.SetLabel(state.range(1) == 1 ? "a process of its own" : "this process");
}

BENCHMARK(ToAndFro)
    ->ArgsProduct({{64, 16384}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace mlxcomm::fabric::rdma

int main(int argc, char** argv) {
  using namespace mlxcomm::fabric::rdma;
  if (argc == 3 && std::strcmp(argv[1], kDriverArgument) == 0) return RunDriver(kDriverSocket);
  benchmark::Initialize(&argc, argv);
  if (argc > 1) library_path = argv[1];
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
