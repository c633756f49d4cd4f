// One direction of the queue: a single-producer, single-consumer ring in memory that the other
// process can write to at any time.
//
// Ordering. The producer writes the slot, then releases `written`; the consumer acquires `written`,
// copies the slot, then releases `read`; the producer acquires `read` before it reuses a slot. To
// sleep (Dekker), the consumer stores consumer_sleeps=1 and then reads `written` again; the
// producer stores `written` and then reads consumer_sleeps. A sequentially consistent fence between
// store and load on both sides ensures that at least one of them sees the other's store.
//
// Hostility. The other side's position is only compared with our own, which is in private memory; a
// difference above the number of slots is corruption.
//
// Owner: one Producer in one process, one Consumer in the other. Thread: one for each view. Memory:
// views over a mapped queue segment, which must outlive them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/queue/layout.h"

namespace mlxcomm::queue {

enum class RingResult : std::uint8_t { kDone, kNothing, kCorrupt };

// The part of an entry that is used: a completion without a message is one cache line.
template <typename Entry>
std::size_t UsedBytes(const Entry&) {
  return sizeof(Entry);
}
inline std::size_t UsedBytes(const CompletionEntry& entry) {
  return kCompletionHeadBytes + std::min<std::size_t>(entry.message_bytes, kFailureMessageBytesMax);
}
template <typename Entry>
void CopyOut(Entry& copy, const Entry& slot) {
  std::memcpy(&copy, &slot, sizeof copy);
}
// Uses the length in the copy, which the other side cannot change.
inline void CopyOut(CompletionEntry& copy, const CompletionEntry& slot) {
  std::memcpy(&copy, &slot, kCompletionHeadBytes);
  copy.message_bytes = std::min<std::uint16_t>(copy.message_bytes, kFailureMessageBytesMax);
  std::memcpy(copy.message, slot.message, copy.message_bytes);
}

template <typename Entry>
class RingProducer {
 public:
  RingProducer(RingPositions* positions, Entry* slots, std::uint32_t slot_count)
      : positions_(positions), slots_(slots), slot_count_(slot_count) {}

  // kNothing: full. kCorrupt: the other side wrote an impossible position.
  RingResult Push(const Entry& entry) {
    const std::uint64_t read = positions_->read.load(std::memory_order_acquire);
    const std::uint64_t used = written_ - read;
    if (used > slot_count_) return RingResult::kCorrupt;
    if (used == slot_count_) return RingResult::kNothing;
    std::memcpy(&slots_[written_ % slot_count_], &entry, UsedBytes(entry));
    positions_->written.store(++written_, std::memory_order_release);
    return RingResult::kDone;
  }

  // Call it after Push. True if the consumer may be asleep; ring its doorbell then.
  bool ConsumerSleeps() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return positions_->consumer_sleeps.load(std::memory_order_relaxed) != 0;
  }

 private:
  RingPositions* positions_;
  Entry* slots_;
  std::uint32_t slot_count_;
  std::uint64_t written_ = 0;
};

template <typename Entry>
class RingConsumer {
 public:
  RingConsumer(RingPositions* positions, const Entry* slots, std::uint32_t slot_count)
      : positions_(positions), slots_(slots), slot_count_(slot_count) {}

  bool HasNext() const { return Available() != 0; }
  // Copies the next entry and frees its slot.
  RingResult Pop(Entry& copy) {
    const std::uint64_t available = Available();
    if (available == 0) return RingResult::kNothing;
    if (available > slot_count_) return RingResult::kCorrupt;
    CopyOut(copy, slots_[read_ % slot_count_]);
    positions_->read.store(++read_, std::memory_order_release);
    return RingResult::kDone;
  }

  // Announces sleep. False if an entry has arrived; do not sleep then.
  bool PrepareToSleep() {
    positions_->consumer_sleeps.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (Available() == 0) return true;
    WakeUp();
    return false;
  }
  void WakeUp() { positions_->consumer_sleeps.store(0, std::memory_order_relaxed); }

 private:
  std::uint64_t Available() const {
    return positions_->written.load(std::memory_order_acquire) - read_;
  }
  RingPositions* positions_;
  const Entry* slots_;
  std::uint32_t slot_count_;
  std::uint64_t read_ = 0;
};

using SubmissionProducer = RingProducer<SubmissionEntry>;
using SubmissionConsumer = RingConsumer<SubmissionEntry>;
using CompletionProducer = RingProducer<CompletionEntry>;
using CompletionConsumer = RingConsumer<CompletionEntry>;

}  // namespace mlxcomm::queue
