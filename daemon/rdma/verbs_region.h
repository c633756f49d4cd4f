// A region of verbs: clients' memory that is registered with a device; and the count of its
// regions.
//
// Owner: ArenaRegions, and rails that send from it. Thread: any that may call the driver. Memory:
// the driver pins the pages; `owner` is kept until it has released them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "daemon/rdma/verbs_device.h"

namespace mlxcomm::rdma {

// Returns false if the limit is reached.
inline bool TakeOne(std::atomic<std::uint32_t>& count, std::uint32_t most) {
  if (count.fetch_add(1) < most) return true;
  count.fetch_sub(1);
  return false;
}

inline int AccessOf(const Limits& limits) {
  return limits.remote_access
             ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
             : IBV_ACCESS_LOCAL_WRITE;
}

class VerbsRegion final : public Region {
 public:
  VerbsRegion(std::shared_ptr<VerbsDevice> device, std::shared_ptr<const void> owner,
              ibv_mr* region)
      : Region(static_cast<const std::byte*>(region->addr), region->length, region->lkey),
        device_(std::move(device)),
        owner_(std::move(owner)),
        region_(region) {}
  ~VerbsRegion() override;

 private:
  const std::shared_ptr<VerbsDevice> device_;
  const std::shared_ptr<const void> owner_;
  ibv_mr* const region_;
};

}  // namespace mlxcomm::rdma
