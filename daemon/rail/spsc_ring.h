// A single-producer, single-consumer ring between two threads of the daemon. Ordering and sleep are
// those of proto/queue/ring.h, but both sides are trusted, so positions are not checked.
//
// Owner: Rail. Thread: one producer, one consumer. Memory: fixed at creation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/platform/mapping.h"

namespace mlxcomm::rail {

template <typename Item>
class SpscRing {
 public:
  explicit SpscRing(std::size_t capacity)
      : capacity_(capacity),
        memory_(platform::MapSparse(capacity * sizeof(Item))),
        items_(reinterpret_cast<Item*>(memory_.data())) {}
  ~SpscRing() {
    const std::uint64_t written = written_.load(std::memory_order_acquire);
    for (std::uint64_t at = read_.load(std::memory_order_acquire); at < written; ++at) {
      std::destroy_at(items_ + at % capacity_);
    }
  }

  // Producer. False: full.
  bool Push(Item&& item) {
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    if (written - read_.load(std::memory_order_acquire) == capacity_) return false;
    std::construct_at(items_ + written % capacity_, std::move(item));
    written_.store(written + 1, std::memory_order_release);
    return true;
  }
  // Producer. Can only grow until the next Push.
  std::size_t Room() const {
    return capacity_ - static_cast<std::size_t>(written_.load(std::memory_order_relaxed) -
                                                read_.load(std::memory_order_acquire));
  }
  // Producer, after Push: whether to wake the consumer.
  bool ConsumerSleeps() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return consumer_sleeps_.load(std::memory_order_relaxed);
  }

  // Consumer.
  bool IsEmpty() const {
    return written_.load(std::memory_order_acquire) == read_.load(std::memory_order_relaxed);
  }
  bool Pop(Item& item) {
    const std::uint64_t read = read_.load(std::memory_order_relaxed);
    if (written_.load(std::memory_order_acquire) == read) return false;
    Item* const oldest = items_ + read % capacity_;
    item = std::move(*oldest);
    std::destroy_at(oldest);
    read_.store(read + 1, std::memory_order_release);
    return true;
  }
  // Consumer. Returns false if the ring is not empty.
  bool PrepareToSleep() {
    consumer_sleeps_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (written_.load(std::memory_order_acquire) == read_.load(std::memory_order_relaxed)) {
      return true;
    }
    WakeUp();
    return false;
  }
  void WakeUp() { consumer_sleeps_.store(false, std::memory_order_relaxed); }

 private:
  const std::size_t capacity_;
  const platform::Mapping memory_;
  Item* const items_;
  alignas(64) std::atomic<std::uint64_t> written_{0};
  alignas(64) std::atomic<std::uint64_t> read_{0};
  alignas(64) std::atomic<bool> consumer_sleeps_{false};
};

}  // namespace mlxcomm::rail
