// Whether what is combined is stored past the cache, learnt from what it took.
//
//   usual stores, 32 passes ─▶ trial of others, 4 passes ─▶ cheaper? they are the usual ones
//        ^                                                 '▶ else: 64 passes, 128, ... 1024
//        '──────────────────────────────────────────────────────'
//
// A store into the cache first fetches what it overwrites. That costs twice the time where the
// outputs have left the cache since they were last used, as in training, or are in another core's;
// where they are still there, going past it does. Whole lines are not fetched, yet where cores
// share a cache, to write them takes somewhat longer from some megabytes on. Nothing in a call tells
// which it is, so all are tried, those that are not the usual ones in turns: for each power of two of
// a step's bytes, from an eighth of the last-level cache up to its size, and each kind of work, for a
// copy takes less than a sum. Below it all is stored in whole lines, above past the cache.
// A pass is as many bytes as a step has. A trial's first one is not counted, for it finds the
// outputs where the other stores have left them; of the others, and of as many before the trial,
// the least counts: whoever was interrupted took longer. So up to three outputs in turn are found
// to be in the cache; of more the trial sees none a second time. Only the combining is timed, not
// what a rank does with its output.
//
// No rule without learning is as good: measured with two ranks, 2 to 8 MiB, cores that share no cache,
// whole lines alone take 2.7 to 3.9 times as long as what is learnt; with cores that share one, past the
// cache alone takes twice as long where outputs are still there.
//
// Owner: Workers. Thread: engine. Memory: some kilobytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/reduce/kernels.h"

namespace mlxcomm::reduce {

// Work of a step, all of whose works read and write `step_bytes` together.
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
  // Whatever has several inputs, and copies: those the C library stores as it likes, in less time.
  static constexpr std::size_t kCombinings = 2;
  static constexpr std::size_t kTypes = 16;

  // Work of one kind, of steps of which the largest has twice the bytes of the smallest.
  struct Kind {
    Stores usual = Stores::kNonTemporal;
    Stores tried = Stores::kNonTemporal;  // In the last trial, or in this one.
    bool on_trial = false;
    std::uint64_t passes = 0;  // Of the usual ones, or of the trial.
    std::uint64_t passes_until_trial = kUsualPassesLeast;
    std::uint64_t bytes = 0;  // Of this pass.
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
