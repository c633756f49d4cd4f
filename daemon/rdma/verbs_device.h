// An open device of verbs: its context, its protection domain, and how many of its queue pairs and
// regions are in use here. Each queue pair keeps it open.
//
// Owner: the code that opened it, and its queue pairs. Thread: any; the counts are atomic.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/verbs_library.h"

namespace mlxcomm::rdma {

// The port that a queue pair uses: the first active one.
struct ActivePort {
  std::uint8_t number = 0;
  ibv_port_attr attributes{};
  std::string states;  // Those of all ports, if none is active.
};
// Returns number 0 if no port is active.
ActivePort FindActivePort(const Verbs& verbs, ibv_context* context);
// Returns the nonzero GIDs among the first kGidsMax, with their index.
std::vector<std::pair<int, Gid>> ListGids(const Verbs& verbs, ibv_context* context,
                                          const ActivePort& port);

// Keeps it until the process exits, because the driver may still use it.
void Leave(std::shared_ptr<const void> owner);

class VerbsDevice final : public Device, public std::enable_shared_from_this<VerbsDevice> {
 public:
  VerbsDevice(const Verbs& verbs, std::string name, const Limits& limits, ibv_context* context,
              ibv_pd* domain);
  ~VerbsDevice() override;

  const std::string& name() const { return name_; }
  const Limits& limits() const override { return limits_; }
  DeviceUse use() const override { return {queue_pairs_.load(), regions_.load()}; }
  bool IsThere() override;
  bool has_gone() const { return has_gone_.load(std::memory_order_relaxed); }
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePairIn(std::span<std::byte> memory,
                                                             const QueuePairShape& shape,
                                                             const Gid& gid) override;
  absl::StatusOr<std::shared_ptr<const Region>> Register(const rail::ClientMemory& arena,
                                                         std::byte* data,
                                                         std::uint64_t bytes) override;

  const Verbs& verbs() const { return verbs_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }

 private:
  friend class VerbsQueuePair;
  friend class VerbsRegion;
  const Verbs verbs_;
  const std::string name_;
  const Limits limits_;
  const std::string entry_;  // Its device file; empty: none.
  std::atomic<bool> has_gone_{false};
  ibv_context* const context_;
  ibv_pd* const domain_;
  std::atomic<std::uint32_t> queue_pairs_{0};
  std::atomic<std::uint32_t> regions_{0};
};

}  // namespace mlxcomm::rdma
