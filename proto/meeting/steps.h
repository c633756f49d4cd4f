// The accesses to a page's words, so that the explorer in tests/unit/proto/meeting can replace them
// and try every order of all parties' accesses.
//
// Owner: the two sides of a page. Thread: any. Memory: the caller's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/meeting/parking.h"

namespace mlxcomm::meeting {

struct SystemSteps {
  template <typename Word>
  static Word Load(const std::atomic<Word>& word) {
    return word.load(std::memory_order_acquire);
  }
  template <typename Word>
  static void Store(std::atomic<Word>& word, Word value) {
    word.store(value, std::memory_order_release);
  }
  // Sequentially consistent.
  template <typename Word>
  static Word Exchange(std::atomic<Word>& word, Word value) {
    return word.exchange(value, std::memory_order_seq_cst);
  }
  template <typename Word>
  static Word LoadInOrder(const std::atomic<Word>& word) {
    return word.load(std::memory_order_seq_cst);
  }
  // Earlier copies are complete before the load.
  template <typename Word>
  static Word LoadAfterCopies(const std::atomic<Word>& word) {
    std::atomic_thread_fence(std::memory_order_acquire);
    return word.load(std::memory_order_acquire);
  }
  template <typename Word>
  static bool CompareExchange(std::atomic<Word>& word, Word& expected, Word value) {
    return word.compare_exchange_strong(expected, value, std::memory_order_acq_rel,
                                        std::memory_order_acquire);
  }
  static void Copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  static void Park(std::atomic<std::uint64_t>& word, std::uint64_t seen, std::uint64_t timeout_ns) {
    meeting::Park(word, seen, timeout_ns);
  }
  static void Wake(std::atomic<std::uint64_t>& word) { WakeAll(word); }
};

}  // namespace mlxcomm::meeting
