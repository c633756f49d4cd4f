// The two rings and the doorbell that a session shares with the daemon.
//
// One thread at a time reads completions; the others sleep until it has read some or stops reading:
//
//   reader: Spin for a bounded, learnt time ─▶ Sleep on the doorbell ─▶ ...
//
// Owner: Connection. Thread: any, under the session's lock; Spin, Sleep and AwaitReader release the
// lock that they are given while they wait. Memory: one mapping.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "client/lib/mapping.h"
#include "proto/queue/adaptive_spin.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/ring.h"

namespace mlxcomm::client {

class Queue {
 public:
  // A sleeper wakes this often to check whether it was interrupted.
  static constexpr std::uint64_t kWakeNs = 50'000'000;

  // Holds what the doorbell brought; `page` is a descriptor that the caller has to close, or -1.
  struct Rung {
    queue::DoorbellState state = queue::DoorbellState::kSilent;
    int page = -1;
  };

  Queue(Mapping memory, int doorbell);
  ~Queue() { ::close(doorbell_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  queue::QueueHeader& header() const {
    return *reinterpret_cast<queue::QueueHeader*>(memory_.get());
  }

  queue::RingResult Push(const queue::SubmissionEntry& entry) { return submissions_.Push(entry); }
  // Call after Push. Ring is a system call, so call it without the lock.
  bool DaemonSleeps() const { return submissions_.ConsumerSleeps(); }
  void Ring() const { queue::RingDoorbell(doorbell_); }

  // While a thread reads, no other one may call Pop or Drain.
  bool has_reader() const { return has_reader_; }
  queue::RingResult Pop(queue::CompletionEntry& entry) { return completions_.Pop(entry); }
  Rung Drain() {
    Rung rung;
    rung.state = queue::DrainDoorbell(doorbell_, &rung.page);
    return rung;
  }
  // This thread becomes the reader until a completion arrives. Returns false if none arrived in
  // time.
  bool Spin(std::unique_lock<std::mutex>& lock, const queue::SpinLimits& limits,
            std::uint64_t until_ns);
  // This thread becomes the reader until something may have arrived, or timeout_ns have passed.
  Rung Sleep(std::unique_lock<std::mutex>& lock, std::uint64_t timeout_ns);

  void AwaitReader(std::unique_lock<std::mutex>& lock, std::uint64_t timeout_ns) {
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns));
  }
  // Wakes the threads in AwaitReader: an operation of theirs may have ended.
  void Notify() { changed_.notify_all(); }

 private:
  Mapping memory_;
  const int doorbell_;
  queue::SubmissionProducer submissions_;
  queue::CompletionConsumer completions_;
  std::condition_variable changed_;
  bool has_reader_ = false;
};

}  // namespace mlxcomm::client
