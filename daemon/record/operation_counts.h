// Counts, durations and bytes of completed operations by kind and type, for metrics.
//
// One writer adds, without lock or allocation. Readers see each number whole, but perhaps not all
// numbers of one operation: a histogram's total is at most one operation behind its buckets.
//
// Owner: Daemon. Thread: Add() from the loop's; everything else from any. Memory: fixed, 32 KiB.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mlxcomm::record {

class OperationCounts {
 public:
  // The writers define the numbers of kinds and types; greater numbers are not counted.
  static constexpr std::size_t kKinds = 16;
  static constexpr std::size_t kTypes = 16;
  // Upper bounds of the buckets, each four times the previous one: 16 us to 67 s. Longer operations
  // are in no bucket.
  static constexpr std::size_t kBuckets = 12;
  static constexpr std::uint64_t BoundNs(std::size_t bucket) {
    return std::uint64_t{16'000} << (2 * bucket);
  }

  struct Counts {
    std::uint64_t done = 0;
    std::uint64_t failed = 0;
    std::uint64_t bytes = 0;  // Bytes, duration and buckets count successful operations only.
    std::uint64_t duration_ns = 0;
    std::array<std::uint64_t, kBuckets> buckets{};  // Not cumulative.
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

  // Adds successful operations that were counted elsewhere; `more.done` and `more.failed` are not
  // used.
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

  // Plain stores are enough for one writer.
  static void Increase(Number& number, std::uint64_t by) {
    number.store(number.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::array<Row, kKinds * kTypes> rows_{};
};

}  // namespace mlxcomm::record
