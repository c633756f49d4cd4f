// A queue pair of verbs: the pair itself, the queue of its completions with the channel that
// tells of them, and one region in which all of its messages lie.
//
//   (made: INIT) ──Connect──▶ RTR ─▶ RTS ──▶ (destroyed)
//                       receives are posted before the first, or after the second (limits.h)
//
// Owner: a rail. Thread: one at a time. Memory: its region, mapped and registered at once,
// on one side of the addresses that a region may not reach over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/fabric/rdma/verbs_device.h"

namespace mlxcomm::fabric::rdma {

// Anonymous pages that do not reach over a multiple of `boundary` (0: they may).
class MessageMemory {
 public:
  static absl::StatusOr<MessageMemory> Map(std::size_t bytes, std::uint64_t boundary);
  MessageMemory() = default;
  MessageMemory(MessageMemory&& other) noexcept { *this = std::move(other); }
  MessageMemory& operator=(MessageMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MessageMemory();
  // It stays mapped to the end of the process.
  void Leave() { address_ = nullptr; }
  std::byte* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

class VerbsQueuePair final : public QueuePair {
 public:
  static absl::StatusOr<std::unique_ptr<QueuePair>> Make(std::shared_ptr<VerbsDevice> device,
                                                         const QueuePairShape& shape,
                                                         const Gid& gid);
  ~VerbsQueuePair() override;

  const QueuePairAddress& address() const override { return address_; }
  std::uint32_t receives() const override { return messages_; }
  std::uint32_t sends() const override { return messages_; }
  std::span<std::byte> Slot(std::uint32_t slot) override {
    return {memory_.address() + std::size_t{slot} * slot_bytes_, slot_bytes_};
  }
  absl::Status Connect(const QueuePairAddress& peer) override;
  absl::Status PostReceive(std::uint32_t slot) override;
  absl::Status PostSend(std::uint32_t slot, std::uint32_t bytes) override;
  absl::Status PostSendFrom(std::uint32_t slot, const Region& region, const std::byte* from,
                            std::uint32_t bytes) override;
  absl::StatusOr<std::size_t> Poll(std::span<Completion> completions) override;
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
  absl::Status MakeRegion();
  absl::Status Initialise();
  absl::Status MakeReadyToReceive(const QueuePairAddress& peer);
  absl::Status MakeReadyToSend();
  absl::Status PostAllReceives();
  absl::Status Post(std::uint32_t slot, ibv_sge entry);
  absl::Status Failed(const char* what, int error) const;

  const std::shared_ptr<VerbsDevice> device_;
  const Service service_;
  const std::uint32_t slot_bytes_;
  std::uint32_t messages_ = 0;
  QueuePairAddress address_;
  std::uint8_t port_ = 0;
  std::uint8_t gid_index_ = 0;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  ibv_mr* region_ = nullptr;
  bool counted_pair_ = false;
  bool counted_region_ = false;
  MessageMemory memory_;
};

}  // namespace mlxcomm::fabric::rdma
