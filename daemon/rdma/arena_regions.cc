#include "daemon/rdma/arena_regions.h"

#include <algorithm>
#include <utility>

namespace mlxcomm::rdma {
namespace {

// Pins the arena's pages while its region exists. Returns false if that is not possible now.
bool KeepPages(rail::ClientMemory& arena) {
  if (!arena.keep_pages) return true;
  std::shared_ptr<const void> pages = arena.keep_pages();
  if (pages == nullptr) return false;
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  arena.owner = std::make_shared<const Both>(arena.owner, std::move(pages));
  return true;
}

}  // namespace

void ArenaRegions::Add(const rail::ClientMemory& arena) {
  const std::lock_guard lock(mutex_);
  arenas_.push_back(arena);
  version_.fetch_add(1, std::memory_order_release);
}

void ArenaRegions::Remove(const std::byte* data) {
  {
    const std::lock_guard lock(mutex_);
    const auto of = std::ranges::find(arenas_, data, &rail::ClientMemory::data);
    if (of == arenas_.end()) return;
    const auto gone = std::ranges::partition(
        regions_, [&](const auto& region) { return !of->Has(region->data()); });
    leaving_.insert(leaving_.end(), std::make_move_iterator(gone.begin()),
                    std::make_move_iterator(gone.end()));
    regions_.erase(gone.begin(), gone.end());
    arenas_.erase(of);
    version_.fetch_add(1, std::memory_order_release);
    if (leaving_.empty()) return;
  }
  update_soon_();
}

ArenaRegions::View ArenaRegions::Snapshot(std::uint64_t& version) const {
  const std::lock_guard lock(mutex_);
  View view;
  for (const rail::ClientMemory& arena : arenas_)
    view.arenas.push_back({nullptr, arena.data, arena.bytes});
  view.regions = regions_;
  version = version_.load(std::memory_order_relaxed);
  return view;
}

std::uint32_t ArenaRegions::regions() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint32_t>(regions_.size());
}

void ArenaRegions::Ask(const std::byte* from) {
  {
    const std::lock_guard lock(mutex_);
    if (regions_.size() + wanted_.size() >= limits_.arena_regions_max) return;
    wanted_.push_back(from);
  }
  update_soon_();
}

ArenaRegions::Piece ArenaRegions::PieceOf(const rail::ClientMemory& arena,
                                          const std::byte* from) const {
  const std::uint64_t each = std::min(limits_.arena_region_bytes, limits_.region_bytes_max);
  const auto at = static_cast<std::uint64_t>(from - arena.data);
  std::uint64_t first = at / each * each;
  std::uint64_t end = std::min(first + each, arena.bytes);
  if (limits_.region_boundary != 0) {
    const auto base = reinterpret_cast<std::uintptr_t>(arena.data);
    const std::uint64_t side = (base + at) / limits_.region_boundary * limits_.region_boundary;
    if (side > base + first) first = side - base;
    end = std::min<std::uint64_t>(end, side + limits_.region_boundary - base);
  }
  return {arena.data + first, end - first};
}

// Takes the next wanted address whose arena exists and whose piece is not registered yet.
bool ArenaRegions::TakeWanted(rail::ClientMemory& arena, Piece& piece, std::uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (now_ns < refused_until_ns_ || ended_by_it_ >= kEndedMax) wanted_.clear();
  while (!wanted_.empty()) {
    const std::byte* const from = wanted_.back();
    wanted_.pop_back();
    const auto of =
        std::ranges::find_if(arenas_, [&](const rail::ClientMemory& one) { return one.Has(from); });
    if (of == arenas_.end()) continue;
    piece = PieceOf(*of, from);
    const bool has = std::ranges::any_of(
        regions_, [&](const auto& region) { return region->data() == piece.data; });
    if (has) continue;
    arena = *of;
    return true;
  }
  return false;
}

void ArenaRegions::Update(const std::shared_ptr<Device>& device, std::uint64_t now_ns) {
  std::vector<std::shared_ptr<const Region>> leaving;
  {
    const std::lock_guard lock(mutex_);
    leaving.swap(leaving_);
    if (device == nullptr) wanted_.clear();  // Rails ask again.
  }
  leaving.clear();
  rail::ClientMemory arena;
  Piece piece;
  while (device != nullptr && TakeWanted(arena, piece, now_ns)) {
    rail::ClientMemory registered = arena;
    if (!KeepPages(registered))
      continue;  // The client is giving pages back; the rail will ask again.
    auto made = device->Register(registered, piece.data, piece.bytes);
    const std::lock_guard lock(mutex_);
    if (!made.ok()) {
      refused_until_ns_ = now_ns + kRefusedNs;
      if (HasEndedProcess(made.status())) ++ended_by_it_;
      continue;
    }
    const bool is_there = std::ranges::any_of(
        arenas_, [&](const rail::ClientMemory& one) { return one.owner == arena.owner; });
    // If the arena was removed in the meantime, the region is dropped below.
    (is_there ? regions_ : leaving).push_back(*std::move(made));
    version_.fetch_add(1, std::memory_order_release);
  }
}

void ArenaRegions::ForgetRegions() {
  {
    const std::lock_guard lock(mutex_);
    leaving_.insert(leaving_.end(), regions_.begin(), regions_.end());
    regions_.clear();
    refused_until_ns_ = 0;
    version_.fetch_add(1, std::memory_order_release);
  }
  Update(nullptr, 0);
}

void ArenaRegions::Clear() {
  std::vector<rail::ClientMemory> arenas;
  {
    const std::lock_guard lock(mutex_);
    arenas.swap(arenas_);
  }
  ForgetRegions();
}

}  // namespace mlxcomm::rdma
