#include "client/lib/queue.h"

#include <utility>

#include "client/lib/clock.h"

namespace mlxcomm::client {

Queue::Queue(Mapping memory, int doorbell)
    : memory_(std::move(memory)),
      doorbell_(doorbell),
      submissions_(
          &header().submissions,
          reinterpret_cast<queue::SubmissionEntry*>(memory_.get() + queue::kSubmissionsOffset),
          queue::kSubmissionSlots),
      completions_(&header().completions,
                   reinterpret_cast<const queue::CompletionEntry*>(memory_.get() +
                                                                   queue::kCompletionsOffset),
                   queue::kCompletionSlots) {}

bool Queue::Spin(std::unique_lock<std::mutex>& lock, const queue::SpinLimits& limits,
                 std::uint64_t until_ns) {
  has_reader_ = true;
  lock.unlock();
  bool found = completions_.HasNext();
  while (!found && NowNs() < until_ns) {
    queue::AdaptiveSpin::Pause(limits);
    found = completions_.HasNext();
  }
  lock.lock();
  has_reader_ = false;
  if (found) Notify();
  return found;
}

Queue::Rung Queue::Sleep(std::unique_lock<std::mutex>& lock, std::uint64_t timeout_ns) {
  Rung rung;
  has_reader_ = true;
  lock.unlock();
  if (completions_.PrepareToSleep()) {
    rung.state = queue::WaitForDoorbell(doorbell_, timeout_ns, &rung.page);
    completions_.WakeUp();
  }
  lock.lock();
  has_reader_ = false;
  Notify();
  return rung;
}

}  // namespace mlxcomm::client
