// A single-producer, single-consumer ring between two threads of the daemon, and
// the agreement by which one of them may sleep.
//
// Ordering and sleep are those of proto/queue/ring.h; here both sides are trusted,
// so positions are not checked.
//
// Owner: Rail. Thread: one producer, one consumer. Memory: fixed at creation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mlxcomm::fabric {

template <typename Item>
class SpscRing {
 public:
  explicit SpscRing(std::size_t capacity) : items_(capacity) {}

  // Producer. False: full.
  bool Push(Item&& item) {
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    if (written - read_.load(std::memory_order_acquire) == items_.size()) return false;
    items_[written % items_.size()] = std::move(item);
    written_.store(written + 1, std::memory_order_release);
    return true;
  }
  // Producer. Only grows until the next Push.
  std::size_t Room() const {
    return items_.size() - static_cast<std::size_t>(written_.load(std::memory_order_relaxed) -
                                                    read_.load(std::memory_order_acquire));
  }
  // Producer, after Push: whether the consumer has to be woken.
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
    item = std::move(items_[read % items_.size()]);
    read_.store(read + 1, std::memory_order_release);
    return true;
  }
  // Consumer. False: something has come, do not sleep.
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
  std::vector<Item> items_;
  alignas(64) std::atomic<std::uint64_t> written_{0};
  alignas(64) std::atomic<std::uint64_t> read_{0};
  alignas(64) std::atomic<bool> consumer_sleeps_{false};
};

}  // namespace mlxcomm::fabric
