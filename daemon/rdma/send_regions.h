// The regions that one rail may send from (arena_regions.h), and which of them the queue pair is
// reading.
//
//   Refresh ─▶ known ──Take: a message from it is being sent──▶ in use ──Return: sent──▶ known
//     known, gone, and not in use ─▶ left: DropLeft releases it, which may call the driver
//
// So a region outlives what was posted from it, and the arena outlives the region, whatever the
// client does.
//
// Owner: RailThread. Thread: its own; Clear once the queue pair is destroyed. Memory: words for
// each region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/rdma/arena_regions.h"

namespace mlxcomm::rdma {

class SendRegions {
 public:
  // A piece that could not be registered is requested again after this long.
  static constexpr std::uint64_t kAskAgainNs = 1'000'000'000;

  struct Known {
    std::shared_ptr<const Region> region;
    std::uint32_t in_use = 0;
    bool gone = false;
  };
  struct Found {
    Known* known = nullptr;   // Null if it must be copied.
    std::uint64_t bytes = 0;  // Counted to the end of the region.
  };

  // Null if everything is copied.
  explicit SendRegions(std::shared_ptr<ArenaRegions> of) : of_(std::move(of)) {}

  void Refresh(std::uint64_t now_ns);
  // If the address is in an arena without a region, requests one.
  Found Find(const std::byte* from);
  static void Take(Known& known) { ++known.in_use; }
  void Return(Known& known) {
    --known.in_use;
    has_left_ = has_left_ || (known.gone && known.in_use == 0);
  }
  bool has_left() const { return has_left_; }
  void DropLeft();
  void Clear();

 private:
  Known* FindKnown(const std::byte* from);

  const std::shared_ptr<ArenaRegions> of_;
  std::uint64_t version_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t asked_ns_ = 0;
  ArenaRegions::View view_;
  std::vector<std::unique_ptr<Known>> known_;
  Known* last_ = nullptr;
  std::vector<const std::byte*> asked_;  // Addresses requested since asked_ns_.
  bool has_left_ = false;
};

}  // namespace mlxcomm::rdma
