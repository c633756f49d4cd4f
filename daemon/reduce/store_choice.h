// Learns from measured times whether combined data should be stored past the cache.
//
//   usual stores, 32 passes ─▶ trial of others, 4 passes ─▶ cheaper? they are the usual ones
//        ^                                                 '▶ else: 64 passes, 128, ... 1024
//        '──────────────────────────────────────────────────────'
//
// Nothing in a call shows where the outputs' lines are, so all kinds of stores are tried: for each
// power of two of a step's bytes, from an eighth of the last-level cache up to its size, and for
// each kind of work. Smaller steps are stored in whole lines, larger ones past the cache. See
// README.md, StoreChoice.
//
// Owner: Workers. Thread: the loop's. Memory: some kilobytes.
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
  explicit StoreChoice(std::uint64_t cache_bytes) : cache_bytes_(cache_bytes) {}

  Stores Choose(const StoredWork& work) const;
  // The work's `bytes` were read and written with `stores` in `ns`, summed over threads.
  void Learn(const StoredWork& work, Stores stores, std::uint64_t bytes, std::uint64_t ns);

 private:
  static constexpr std::uint64_t kPassesCounted = 3;
  static constexpr std::uint64_t kUsualPassesLeast = 32;
  static constexpr std::uint64_t kUsualPassesMost = 1024;
  static constexpr double kCheaper = 0.9;
  static constexpr std::size_t kSizes = 3;  // Up to a quarter, half, all of the cache.
  // Work with several inputs, and copies, which the C library stores in its own way, in less time.
  static constexpr std::size_t kCombinings = 2;
  static constexpr std::size_t kTypes = 16;

  // Work of one kind, in steps the largest of which has twice the bytes of the smallest.
  struct Kind {
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
  bool IsBetween(std::uint64_t step_bytes) const {
    return step_bytes > cache_bytes_ / 8 && step_bytes <= cache_bytes_;
  }
  std::size_t IndexOf(const StoredWork& work) const;
  static Stores NextToTry(const Kind& kind);
  static void EndPass(Kind& kind);
  static void EndTrial(Kind& kind);

  std::uint64_t cache_bytes_;
  std::array<Kind, kSizes * kCombinings * kTypes> kinds_;
};

}  // namespace mlxcomm::reduce
