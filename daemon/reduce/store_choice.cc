#include "daemon/reduce/store_choice.h"

#include <algorithm>

namespace mlxcomm::reduce {
namespace {

constexpr std::array kTried = {Stores::kWholeLines, Stores::kOrdinary, Stores::kNonTemporal};

}  // namespace

StoreChoice::StoreChoice(std::uint64_t cache_bytes, std::uint64_t piece_bytes)
    : cache_bytes_(cache_bytes), piece_bytes_(piece_bytes) {
  constexpr std::size_t kKindsOfSize = kCombinings * kTypes;
  for (std::size_t i = kStaysInCache * kKindsOfSize; i < kinds_.size(); ++i) {
    kinds_[i].stays_in_cache = true;
    kinds_[i].usual = kinds_[i].tried = Stores::kWholeLines;
  }
}

std::size_t StoreChoice::SizeOf(std::uint64_t step_bytes) const {
  std::size_t size = 0;
  while (size + 1 < kSizes && step_bytes <= cache_bytes_ >> (size + 1)) ++size;
  return size;
}

std::size_t StoreChoice::IndexOf(const StoredWork& work) const {
  const std::size_t combining = work.input_count > 1 ? 1 : 0;
  return (SizeOf(work.step_bytes) * kCombinings + combining) * kTypes +
         static_cast<std::size_t>(work.type) % kTypes;
}

Stores StoreChoice::Choose(const StoredWork& work) const {
  if (!IsLearnt(work.step_bytes)) {
    return work.step_bytes > cache_bytes_ ? Stores::kNonTemporal : Stores::kWholeLines;
  }
  const Kind& kind = kinds_[IndexOf(work)];
  return kind.on_trial ? kind.tried : kind.usual;
}

// Ignores work that started before the trial began or ended.
void StoreChoice::Learn(const StoredWork& work, Stores stores, std::uint64_t bytes,
                        std::uint64_t ns) {
  if (!IsLearnt(work.step_bytes) || stores != Choose(work)) return;
  Kind& kind = kinds_[IndexOf(work)];
  kind.bytes += bytes;
  kind.ns += ns;
  if (kind.bytes >= work.step_bytes) EndPass(kind);
}

Stores StoreChoice::NextToTry(const Kind& kind) {
  const auto* next = std::ranges::find(kTried, kind.tried);
  do {
    if (++next == kTried.end()) next = kTried.begin();
  } while (*next == kind.usual || (kind.stays_in_cache && *next == Stores::kNonTemporal));
  return *next;
}

void StoreChoice::EndPass(Kind& kind) {
  const double cost = static_cast<double>(kind.ns) / static_cast<double>(kind.bytes);
  kind.bytes = 0;
  kind.ns = 0;
  ++kind.passes;
  const std::uint64_t passes_all = kind.on_trial ? 1 + kPassesCounted : kind.passes_until_trial;
  const bool counts = kind.passes + kPassesCounted > passes_all;
  double& least = kind.on_trial ? kind.trial_cost : kind.usual_cost;
  if (counts) least = least == 0 ? cost : std::min(least, cost);
  if (kind.passes < passes_all) return;
  if (kind.on_trial) {
    EndTrial(kind);
  } else {
    kind.tried = NextToTry(kind);
  }
  kind.passes = 0;
  kind.on_trial = !kind.on_trial;
}

void StoreChoice::EndTrial(Kind& kind) {
  if (kind.trial_cost < kCheaper * kind.usual_cost) {
    kind.usual = kind.tried;
    kind.passes_until_trial = kUsualPassesMin;
  } else {
    kind.passes_until_trial = std::min(2 * kind.passes_until_trial, kUsualPassesMax);
  }
  kind.usual_cost = 0;
  kind.trial_cost = 0;
}

}  // namespace mlxcomm::reduce
