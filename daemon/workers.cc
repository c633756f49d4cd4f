#include "daemon/workers.h"

#include <poll.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/reduce/kernels.h"

namespace mlxcomm {
namespace {

constexpr std::uint64_t kSpinNs = 5'000;

}  // namespace

Workers::Workers(std::uint32_t count, platform::Wakeup& engine_bell,
                 telemetry::FlightRecorder& recorder)
    : engine_bell_(engine_bell), recorder_(recorder) {
  for (std::uint32_t i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.track = recorder.AddTrack(telemetry::TrackKind::kWorker, absl::StrCat("worker ", i));
    worker.thread = std::thread([this, &worker] { Run(worker); });
  }
}

Workers::~Workers() {
  stop_.store(true, std::memory_order_release);
  for (const auto& worker : workers_) {
    worker->bell.Ring();
    worker->thread.join();
    recorder_.CloseTrack(worker->track);
  }
}

bool Workers::IsWorthwhile(const collective::LocalWork& work) {
  return work.elements * DataTypeBytes(work.type) > collective::kEagerBytes;
}

void Workers::Do(const collective::LocalWork& work) {
  if (work.elements == 0) return;
  reduce::Combine({work.type, work.op, work.divisor}, work.inputs.data(), work.input_count,
                  work.outputs.data(), work.output_count, work.elements,
                  work.beyond_cache ? reduce::Stores::kNonTemporal : reduce::Stores::kOrdinary);
}

bool Workers::Submit(const collective::LocalWork* work, std::uint64_t cookie,
                     const telemetry::Name& operation) {
  for (std::size_t tried = 0; tried < workers_.size(); ++tried) {
    Worker& worker = *workers_[next_];
    next_ = (next_ + 1) % workers_.size();
    if (!worker.todo.Push({work, cookie, operation})) continue;
    if (worker.todo.ConsumerSleeps()) worker.bell.Ring();
    return true;
  }
  return false;
}

std::size_t Workers::Poll(std::vector<std::uint64_t>& done) {
  std::size_t count = 0;
  std::uint64_t cookie = 0;
  for (const auto& worker : workers_) {
    while (worker->done.Pop(cookie)) {
      done.push_back(cookie);
      ++count;
    }
  }
  return count;
}

bool Workers::PrepareToSleep() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i]->done.PrepareToSleep()) continue;
    for (std::size_t k = 0; k < i; ++k) workers_[k]->done.WakeUp();
    return false;
  }
  return true;
}

void Workers::WakeUp() {
  for (const auto& worker : workers_) worker->done.WakeUp();
}

void Workers::DoRecorded(const Item& item, telemetry::EventRing* track) {
  telemetry::Event event;
  event.kind = telemetry::EventKind::kWorked;
  event.set_name(item.operation);
  event.bytes = item.work->elements * DataTypeBytes(item.work->type);
  event.time_ns = platform::MonotonicNow();
  Do(*item.work);
  event.duration_ns = platform::MonotonicNow() - event.time_ns;
  if (track != nullptr) track->Write(event);
}

void Workers::Run(Worker& worker) {
  std::uint64_t idle_since = 0;
  Item item;
  while (!stop_.load(std::memory_order_acquire)) {
    if (worker.todo.Pop(item)) {
      DoRecorded(item, worker.track);
      // The engine makes room each turn, but not once it has ended.
      while (!worker.done.Push(std::uint64_t{item.cookie})) {
        if (stop_.load(std::memory_order_acquire)) return;
        std::this_thread::yield();
      }
      if (worker.done.ConsumerSleeps()) engine_bell_.Ring();
      idle_since = 0;
      continue;
    }
    const std::uint64_t now = platform::MonotonicNow();
    if (idle_since == 0) idle_since = now;
    if (now - idle_since < kSpinNs || !worker.todo.PrepareToSleep()) continue;
    if (!stop_.load(std::memory_order_acquire)) {
      pollfd waited{worker.bell.descriptor(), POLLIN, 0};
      ::poll(&waited, 1, -1);
      worker.bell.Drain();
    }
    worker.todo.WakeUp();
  }
}

}  // namespace mlxcomm
