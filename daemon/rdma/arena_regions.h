// The clients' memory that is registered with one device, so that its queue pairs send from it
// without a copy.
//
//   Add: an arena ──Ask: a rail wants to send much from a piece of it──▶ wanted
//     ──Update, the driver's thread──▶ registered, or refused and requested again later
//   Remove: the client is gone ──▶ forgotten here, then by each rail that has seen it; the last
//     holder of a region deregisters it, and unmaps the arena after its last region
//
// Owner: DriverThread's shared part, and rails. Thread: stated at each call; the lock is never held
// during a driver's call. Memory: a word for each arena and region.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "daemon/rail/client_memory.h"
#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma {

class ArenaRegions {
 public:
  // After a refusal the device is not asked again for this long.
  static constexpr std::uint64_t kRefusedNs = 10'000'000'000;
  // After its driver's process has ended this often during a registration, the device is not asked
  // again: rails that copy are better than rails that come and go.
  static constexpr int kEndedMax = 2;

  // A holder keeps the regions alive, but not arenas without regions.
  struct View {
    std::vector<rail::ClientMemory> arenas;  // Their owners are null.
    std::vector<std::shared_ptr<const Region>> regions;
  };

  // `update_soon` makes the device's thread call Update; any thread calls it.
  ArenaRegions(const Limits& limits, std::function<void()> update_soon)
      : limits_(limits), update_soon_(std::move(update_soon)) {}

  // The loop's thread. `data`: of an arena that was added.
  void Add(const rail::ClientMemory& arena);
  void Remove(const std::byte* data);
  // Rails' threads.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  View Snapshot(std::uint64_t& version) const;
  void Ask(const std::byte* from);
  // The driver's thread. Without a device, releases everything that is held here.
  void Update(const std::shared_ptr<Device>& device, std::uint64_t now_ns);
  // The device is gone: its regions are forgotten, arenas are kept for the next one.
  void ForgetRegions();
  void Clear();
  // Any thread.
  std::uint32_t regions() const;
  std::uint32_t regions_max() const { return limits_.arena_regions_max; }

 private:
  struct Piece {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };
  Piece PieceOf(const rail::ClientMemory& arena, const std::byte* from) const;
  bool TakeWanted(rail::ClientMemory& arena, Piece& piece, std::uint64_t now_ns);

  const Limits limits_;
  const std::function<void()> update_soon_;
  std::atomic<std::uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::vector<rail::ClientMemory> arenas_;
  std::vector<std::shared_ptr<const Region>> regions_;
  std::vector<std::shared_ptr<const Region>> leaving_;  // Released by the driver's thread.
  std::vector<const std::byte*> wanted_;
  std::uint64_t refused_until_ns_ = 0;
  int ended_by_it_ = 0;
};

}  // namespace mlxcomm::rdma
