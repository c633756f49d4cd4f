// Learns from measured times how combined data should be stored.
//
//   usual stores, 32 passes ─▶ trial of others, 4 passes ─▶ cheaper? they are the usual ones
//        ^                                                 '▶ else: 64 passes, 128, ... 1024
//        '──────────────────────────────────────────────────────'
//
// Learns separately for each kind of work, and for each power of two of a step's bytes up to the
// size of the last-level cache; larger steps bypass the cache. See README.md, StoreChoice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/reduce/kernels.h"

namespace mlxcomm::reduce {

// Work in a step that reads and writes `step_bytes` in all.
struct StoredWork {
  DataType type = DataType::kFloat32;
  std::uint32_t input_count = 1;
  std::uint64_t step_bytes = 0;
};

class StoreChoice {
 public:
  // Steps of at most piece_bytes are one piece of work, and nothing is learnt from them.
  StoreChoice(std::uint64_t cache_bytes, std::uint64_t piece_bytes);

  Stores Choose(const StoredWork& work) const;
  // `ns` is the sum over threads.
  void Learn(const StoredWork& work, Stores stores, std::uint64_t bytes, std::uint64_t ns);

 private:
  static constexpr std::uint64_t kPassesCounted = 3;
  static constexpr std::uint64_t kUsualPassesMin = 32;
  static constexpr std::uint64_t kUsualPassesMax = 1024;
  static constexpr double kCheaper = 0.9;
  // A step of size i has at most 2^-i of the cache's bytes, and more than half of that. From size
  // kStaysInCache on, its outputs stay there.
  static constexpr std::size_t kSizes = 10;
  static constexpr std::size_t kStaysInCache = 3;
  // Work with several inputs, and copies, which the C library stores in its own way.
  static constexpr std::size_t kCombinings = 2;
  static constexpr std::size_t kTypes = 16;

  struct Kind {
    bool stays_in_cache = false;
    Stores usual = Stores::kNonTemporal;
    Stores tried = Stores::kNonTemporal;  // Used in the last or current trial.
    bool on_trial = false;
    std::uint64_t passes = 0;
    std::uint64_t passes_until_trial = kUsualPassesMin;
    std::uint64_t bytes = 0;  // Counted in this pass.
    std::uint64_t ns = 0;
    double usual_cost = 0;  // Minimum ns per byte; 0: none.
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
