// Which memory of clients is registered with one device, so that its queue pairs send from there without a
// copy. See README.md, ArenaRegions.
//
//   Add: an arena ──Ask: a rail is to send much from a piece of it──▶ wanted
//     ──Tend, the driver's thread──▶ registered, or refused and asked for again later
//   Remove: the client has gone ──▶ forgotten here, then by each rail that has seen it; the last that
//     holds the region deregisters it, and unmaps the arena if this was its last region
//
// Owner: DriverThread's shared part, and rails. Thread: stated at each call; one lock, held for moments in
// which no driver is called. Memory: a word for each arena and region.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/rail/client_memory.h"
#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma {

// What it needs of the device's thread; any thread calls it.
class ArenaRegionsPort {
 public:
  virtual ~ArenaRegionsPort() = default;
  virtual void TendSoon() = 0;  // Tend follows.
  virtual DeviceUse Use() const = 0;
};

class ArenaRegions {
 public:
  // A device that has refused a region is asked for none this long: others have used it up.
  static constexpr std::uint64_t kRefusedNs = 10'000'000'000;
  // One whose driver's process has ended this often while it was to register a region is asked for
  // no more: rails that only copy are better than rails that come and go.
  static constexpr int kEndedMax = 2;

  // Its holder keeps regions, but no arena of which nothing is registered.
  struct View {
    std::vector<rail::ClientMemory> arenas;  // Without owners.
    std::vector<std::shared_ptr<const Region>> regions;
  };

  // The port outlives it.
  ArenaRegions(const Limits& limits, ArenaRegionsPort& port) : limits_(limits), port_(port) {}

  // The loop's thread. `data` is that of one that was added.
  void Add(const rail::ClientMemory& arena);
  void Remove(const std::byte* data);
  // Rails.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  View Look(std::uint64_t& version) const;
  void Ask(const std::byte* from);
  // Driver's thread. Null: there is no device; all that is held here is let go.
  void Tend(const std::shared_ptr<Device>& device, std::uint64_t now_ns);
  // The device has gone: its regions are forgotten, arenas are kept for the next one.
  void ForgetRegions();
  void Clear();
  // Any.
  DeviceUse use() const { return port_.Use(); }
  std::uint32_t regions_max() const { return limits_.arena_regions_max; }

 private:
  struct Piece {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
  };
  Piece PieceOf(const rail::ClientMemory& arena, const std::byte* from) const;
  bool TakeWanted(rail::ClientMemory& arena, Piece& piece, std::uint64_t now_ns);

  const Limits limits_;
  ArenaRegionsPort& port_;
  std::atomic<std::uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::vector<rail::ClientMemory> arenas_;
  std::vector<std::shared_ptr<const Region>> regions_;
  std::vector<std::shared_ptr<const Region>> leaving_;  // To be let go by the driver's thread.
  std::vector<const std::byte*> wanted_;
  std::uint64_t refused_until_ns_ = 0;
  int ended_by_it_ = 0;
};

}  // namespace mlxcomm::rdma
