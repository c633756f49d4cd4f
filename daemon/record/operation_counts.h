// How many operations of each kind and type have ended, how long they took, and how many bytes they had: the
// figures for metrics.
//
// One writer adds, without lock or allocation. Readers on any thread see each number whole, but perhaps not
// all numbers of one operation together: a histogram's total is at worst one operation behind its buckets.
//
// Owner: Daemon. Thread: Add() from the loop's; everything else from any. Memory: fixed,
// 32 KiB.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mlxcomm::record {

class OperationCounts {
 public:
  // The writers define the numbers of kinds and types; greater ones are not counted.
  static constexpr std::size_t kKinds = 16;
  static constexpr std::size_t kTypes = 16;
  // Upper bounds of the buckets, each four times the one before: 16 us to 67 s; a last one for the rest.
  static constexpr std::size_t kBuckets = 12;
  static constexpr std::uint64_t BoundNs(std::size_t bucket) {
    return std::uint64_t{16'000} << (2 * bucket);
  }

  struct Counts {
    std::uint64_t done = 0;
    std::uint64_t failed = 0;
    std::uint64_t bytes = 0;                        // Passed by a rank here, if done.
    std::uint64_t duration_ns = 0;                  // Sum over successful operations.
    std::array<std::uint64_t, kBuckets> buckets{};  // Of successful operations; not cumulative.
  };

  void Add(std::uint8_t kind, std::uint8_t type, bool failed, std::uint64_t bytes,
           std::uint64_t duration_ns) {
    if (kind >= kKinds || type >= kTypes) return;
    Row& row = rows_[kind * kTypes + type];
    if (failed) return Increase(row.failed, 1);
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      if (duration_ns > BoundNs(bucket)) continue;
      Increase(row.buckets[bucket], 1);
      break;
    }
    Increase(row.bytes, bytes);
    Increase(row.duration_ns, duration_ns);
    Increase(row.done, 1);
  }

  // Successful operations, of which the writer has kept count elsewhere; `more.done` is not used.
  void AddMany(std::size_t kind, std::size_t type, const Counts& more) {
    if (kind >= kKinds || type >= kTypes) return;
    Row& row = rows_[kind * kTypes + type];
    std::uint64_t done = 0;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      Increase(row.buckets[bucket], more.buckets[bucket]);
      done += more.buckets[bucket];
    }
    Increase(row.bytes, more.bytes);
    Increase(row.duration_ns, more.duration_ns);
    Increase(row.done, done);
  }

  Counts Read(std::size_t kind, std::size_t type) const {
    const Row& row = rows_[kind * kTypes + type];
    Counts counts;
    const auto read = [](const Number& number) { return number.load(std::memory_order_relaxed); };
    counts.done = read(row.done);
    counts.failed = read(row.failed);
    counts.bytes = read(row.bytes);
    counts.duration_ns = read(row.duration_ns);
    for (std::size_t i = 0; i < kBuckets; ++i) counts.buckets[i] = read(row.buckets[i]);
    return counts;
  }

 private:
  using Number = std::atomic<std::uint64_t>;
  struct Row {
    Number done{0};
    Number failed{0};
    Number bytes{0};
    Number duration_ns{0};
    std::array<Number, kBuckets> buckets{};
  };

  // Plain stores: there is one writer.
  static void Increase(Number& number, std::uint64_t by) {
    number.store(number.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::array<Row, kKinds * kTypes> rows_{};
};

}  // namespace mlxcomm::record
