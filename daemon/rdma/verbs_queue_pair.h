// A queue pair of verbs: the pair, its completion queue and channel, and one region for all of its
// messages.
//
//   (made: INIT) ──Connect──▶ RTR ─▶ RTS ──▶ (destroyed)
//                       receives are posted before the first, or after the second (limits.h)
//
// Owner: a rail. Thread: one at a time. Memory: its region, given or its own. If the driver refuses
// to register given memory (whether Apple's accepts shared memory is unknown), messages are copied
// to and from memory of its own as they are posted and completed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "daemon/rdma/message_memory.h"
#include "daemon/rdma/verbs_device.h"

namespace mlxcomm::rdma {

class VerbsQueuePair final : public QueuePair {
 public:
  static absl::StatusOr<std::unique_ptr<QueuePair>> Make(std::shared_ptr<VerbsDevice> device,
                                                         const QueuePairShape& shape,
                                                         const Gid& gid,
                                                         std::span<std::byte> memory);
  ~VerbsQueuePair() override;

  const QueuePairAddress& address() const override { return address_; }
  std::span<std::byte> Slot(std::uint32_t slot) override {
    return {SlotIn(given_.empty() ? registered_ : given_.data(), slot), slot_bytes_};
  }
  absl::Status Connect(const QueuePairAddress& peer) override;
  absl::Status PostReceive(std::uint32_t slot) override;
  absl::Status PostSend(std::uint32_t slot, std::uint32_t bytes) override;
  absl::Status PostSendFrom(std::uint32_t slot, const Region& region, const std::byte* from,
                            std::uint32_t bytes) override;
  absl::StatusOr<std::size_t> Poll(std::span<Completion> completions) override;
  // True if messages are copied because the driver did not register the given memory.
  bool is_copied() const { return !given_.empty() && registered_ != given_.data(); }
  int descriptor() const override { return channel_ == nullptr ? -1 : channel_->fd; }
  absl::Status Arm() override;

 private:
  static constexpr std::size_t kPollMax = 32;

  VerbsQueuePair(std::shared_ptr<VerbsDevice> device, const QueuePairShape& shape)
      : device_(std::move(device)), service_(shape.service), slot_bytes_(shape.message_bytes) {}
  const Verbs& verbs() const { return device_->verbs_; }
  absl::Status FindPort(const Gid& gid);
  absl::Status MakeQueues(const QueuePairShape& shape);
  absl::Status MakePair(const QueuePairShape& shape);
  absl::Status MakeRegion(std::span<std::byte> memory);
  absl::Status Initialise();
  absl::Status MakeReadyToReceive(const QueuePairAddress& peer);
  absl::Status MakeReadyToSend();
  absl::Status PostAllReceives();
  absl::Status Post(std::uint32_t slot, ibv_sge entry);
  absl::Status Register(const rail::ClientMemory& memory);
  absl::Status Failed(const char* what, int error) const;
  std::byte* SlotIn(std::byte* memory, std::uint32_t slot) const {
    return memory + std::size_t{slot} * slot_bytes_;
  }
  std::byte* Registered(std::uint32_t slot) const { return SlotIn(registered_, slot); }

  const std::shared_ptr<VerbsDevice> device_;
  const Service service_;
  const std::uint32_t slot_bytes_;
  QueuePairAddress address_;
  std::uint8_t port_ = 0;
  std::uint8_t gid_index_ = 0;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  bool is_counted_ = false;
  absl::Status failed_;                   // A completion has failed.
  std::span<std::byte> given_;            // Not owned.
  std::shared_ptr<const Region> region_;  // Own memory if none was given or it is copied.
  std::byte* registered_ = nullptr;       // The region's memory.
};

}  // namespace mlxcomm::rdma
