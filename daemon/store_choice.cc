#include "daemon/store_choice.h"

#include <algorithm>

namespace mlxcomm {

using reduce::Stores;

Stores StoreChoice::Choose(std::uint64_t step_bytes) const {
  if (!IsBetween(step_bytes)) {
    return step_bytes > cache_bytes_ ? Stores::kNonTemporal : Stores::kOrdinary;
  }
  const Sizes& sizes = sizes_[IndexOf(step_bytes)];
  return sizes.on_trial ? Other(sizes.usual) : sizes.usual;
}

// What was begun before the trial began or ended says nothing of it.
void StoreChoice::Learn(std::uint64_t step_bytes, Stores stores, std::uint64_t bytes,
                        std::uint64_t ns) {
  if (!IsBetween(step_bytes) || stores != Choose(step_bytes)) return;
  Sizes& sizes = sizes_[IndexOf(step_bytes)];
  sizes.bytes += bytes;
  sizes.ns += ns;
  if (sizes.bytes >= step_bytes) EndPass(sizes);
}

Stores StoreChoice::Other(Stores stores) {
  return stores == Stores::kOrdinary ? Stores::kNonTemporal : Stores::kOrdinary;
}

void StoreChoice::EndPass(Sizes& sizes) {
  const double cost = static_cast<double>(sizes.ns) / static_cast<double>(sizes.bytes);
  sizes.bytes = 0;
  sizes.ns = 0;
  ++sizes.passes;
  const std::uint64_t passes_all = sizes.on_trial ? 1 + kPassesCounted : sizes.passes_until_trial;
  const bool counts = sizes.passes + kPassesCounted > passes_all;
  double& least = sizes.on_trial ? sizes.trial_cost : sizes.usual_cost;
  if (counts) least = least == 0 ? cost : std::min(least, cost);
  if (sizes.passes < passes_all) return;
  if (sizes.on_trial) EndTrial(sizes);
  sizes.passes = 0;
  sizes.on_trial = !sizes.on_trial;
}

void StoreChoice::EndTrial(Sizes& sizes) {
  if (sizes.trial_cost < kCheaper * sizes.usual_cost) {
    sizes.usual = Other(sizes.usual);
    sizes.passes_until_trial = kUsualPassesLeast;
  } else {
    sizes.passes_until_trial = std::min(2 * sizes.passes_until_trial, kUsualPassesMost);
  }
  sizes.usual_cost = 0;
  sizes.trial_cost = 0;
}

}  // namespace mlxcomm
