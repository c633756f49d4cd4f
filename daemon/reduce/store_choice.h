// Learns from measured times whether combined data should be stored past the cache.
//
//   usual stores, 32 passes ─▶ trial of others, 4 passes ─▶ cheaper? they are the usual ones
//        ^                                                 '▶ else: 64 passes, 128, ... 1024
//        '──────────────────────────────────────────────────────'
//
// For each power of two of a step's bytes up to the size of the last-level cache, and for each kind
// of work; larger steps are stored past the cache. README.md, StoreChoice, says what is tried for
// which.
//
// Owner: Workers. Thread: the loop's. Memory: 18 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/reduce/kernels.h"

namespace mlxcomm::reduce {

// Work in a step, all of whose works together read and write `step_bytes`.
struct StoredWork {
  DataType type = DataType::kFloat32;
  std::uint32_t input_count = 1;
  std::uint64_t step_bytes = 0;
};

class StoreChoice {
 public:
  // Steps of at most piece_bytes are one piece of work: of them there is nothing to learn.
  StoreChoice(std::uint64_t cache_bytes, std::uint64_t piece_bytes);

  Stores Choose(const StoredWork& work) const;
  // The work's `bytes` were read and written with `stores` in `ns`, summed over threads.
  void Learn(const StoredWork& work, Stores stores, std::uint64_t bytes, std::uint64_t ns);

 private:
  static constexpr std::uint64_t kPassesCounted = 3;
  static constexpr std::uint64_t kUsualPassesLeast = 32;
  static constexpr std::uint64_t kUsualPassesMost = 1024;
  static constexpr double kCheaper = 0.9;
  // A step of size i has at most 2^-i of the cache's bytes, and more than half of that. From size
  // kStaysInCache on its outputs stay there.
  static constexpr std::size_t kSizes = 10;
  static constexpr std::size_t kStaysInCache = 3;
  // Work with several inputs, and copies, which the C library stores in its own way, in less time.
  static constexpr std::size_t kCombinings = 2;
  static constexpr std::size_t kTypes = 16;

  // Work of one kind, in steps the largest of which has twice the bytes of the smallest.
  struct Kind {
    bool stays_in_cache = false;
    Stores usual = Stores::kNonTemporal;
    Stores tried = Stores::kNonTemporal;  // In the last trial, or in this one.
    bool on_trial = false;
    std::uint64_t passes = 0;  // In the usual way, or in the trial.
    std::uint64_t passes_until_trial = kUsualPassesLeast;
    std::uint64_t bytes = 0;  // In this pass.
    std::uint64_t ns = 0;
    double usual_cost = 0;  // Least ns for each byte; 0: none counted.
    double trial_cost = 0;
  };
  bool IsLearnt(std::uint64_t step_bytes) const {
    return step_bytes > piece_bytes_ && step_bytes <= cache_bytes_;
  }
  std::size_t SizeOf(std::uint64_t step_bytes) const;
  std::size_t IndexOf(const StoredWork& work) const;
  static Stores NextToTry(const Kind& kind);
  static void EndPass(Kind& kind);
  static void EndTrial(Kind& kind);

  std::uint64_t cache_bytes_;
  std::uint64_t piece_bytes_;
  std::array<Kind, kSizes * kCombinings * kTypes> kinds_;
};

}  // namespace mlxcomm::reduce
