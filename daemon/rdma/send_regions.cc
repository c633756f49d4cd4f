#include "daemon/rdma/send_regions.h"

#include <algorithm>
#include <utility>

namespace mlxcomm::rdma {
namespace {

// Requests: addresses closer than this count as the same piece; at most this many are kept.
constexpr std::ptrdiff_t kNearBytes = 16 * 1024 * 1024;
constexpr std::size_t kAskedMax = 64;

}  // namespace

void SendRegions::Refresh(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (of_ == nullptr || of_->version() == version_) return;
  view_ = of_->Snapshot(version_);
  last_ = nullptr;
  asked_.clear();
  for (const auto& known : known_) {
    const auto still = std::ranges::find(view_.regions, known->region);
    known->gone = still == view_.regions.end();
    if (!known->gone) view_.regions.erase(still);
    has_left_ = has_left_ || (known->gone && known->in_use == 0);
  }
  for (auto& region : view_.regions) {
    known_.push_back(std::make_unique<Known>());
    known_.back()->region = std::move(region);
  }
  view_.regions.clear();
}

SendRegions::Known* SendRegions::FindKnown(const std::byte* from) {
  const auto has = [from](const Known& known) {
    return !known.gone && from >= known.region->data() &&
           from < known.region->data() + known.region->bytes();
  };
  if (last_ != nullptr && has(*last_)) return last_;
  for (const auto& known : known_) {
    if (has(*known)) return last_ = known.get();
  }
  return nullptr;
}

SendRegions::Found SendRegions::Find(const std::byte* from) {
  if (Known* const known = FindKnown(from); known != nullptr) {
    const Region& region = *known->region;
    return {known, static_cast<std::uint64_t>(region.data() + region.bytes() - from)};
  }
  const bool is_arenas = std::ranges::any_of(
      view_.arenas, [from](const rail::ClientMemory& arena) { return arena.Has(from); });
  if (!is_arenas) return {};
  if (now_ns_ - asked_ns_ >= kAskAgainNs) {
    asked_.clear();
    asked_ns_ = now_ns_;
  }
  const bool was_asked = std::ranges::any_of(asked_, [from](const std::byte* before) {
    return from - before > -kNearBytes && from - before < kNearBytes;
  });
  if (was_asked || asked_.size() == kAskedMax) return {};
  asked_.push_back(from);
  of_->Ask(from);
  return {};
}

void SendRegions::DropLeft() {
  has_left_ = false;
  std::erase_if(known_, [](const auto& known) { return known->gone && known->in_use == 0; });
}

void SendRegions::Clear() {
  last_ = nullptr;
  known_.clear();
  view_ = {};
}

}  // namespace mlxcomm::rdma
