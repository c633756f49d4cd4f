#include "daemon/rdma/verbs_queue_pair.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rdma/choose_gid.h"

namespace mlxcomm::rdma {
namespace {

constexpr std::uint64_t kReceive = std::uint64_t{1} << 32;  // In wr_id, besides the slot.
// For reliable pairs, in units of ibv_modify_qp(3): 67 ms, 7 times; 0.64 ms, 6 times.
constexpr std::uint8_t kTimeout = 14;
constexpr std::uint8_t kRetries = 7;
constexpr std::uint8_t kNotReadyTimer = 12;
constexpr std::uint8_t kNotReadyRetries = 6;

ibv_mtu MtuOf(std::uint16_t bytes) {
  std::uint16_t known = 256;
  int mtu = IBV_MTU_256;
  for (; known < bytes && mtu < IBV_MTU_4096; known = static_cast<std::uint16_t>(known * 2)) ++mtu;
  return static_cast<ibv_mtu>(mtu);
}

}  // namespace

absl::StatusOr<std::unique_ptr<QueuePair>> VerbsQueuePair::Make(std::shared_ptr<VerbsDevice> device,
                                                                const QueuePairShape& shape,
                                                                const Gid& gid,
                                                                std::span<std::byte> memory) {
  std::unique_ptr<VerbsQueuePair> made(new VerbsQueuePair(std::move(device), shape));
  absl::Status status = made->FindPort(gid);
  if (status.ok()) status = made->MakeQueues(shape);
  if (status.ok()) status = made->MakePair(shape);
  if (status.ok()) status = made->MakeRegion(memory);
  if (status.ok()) status = made->Initialise();
  if (!status.ok()) return status;
  return std::unique_ptr<QueuePair>(std::move(made));
}

absl::Status VerbsQueuePair::Failed(const char* what, int error) const {
  return absl::UnavailableError(
      absl::StrCat("RDMA device ", device_->name(), " ", what, ": ", std::strerror(error)));
}

absl::Status VerbsQueuePair::FindPort(const Gid& gid) {
  const ActivePort port = FindActivePort(verbs(), device_->context_);
  if (port.number == 0) {
    return absl::UnavailableError(
        absl::StrCat("RDMA device ", device_->name(), " is not active: ", port.states));
  }
  port_ = port.number;
  address_.lid = port.attributes.lid;
  address_.mtu_bytes = static_cast<std::uint16_t>(128u << port.attributes.active_mtu);
  const auto listed = ListGids(verbs(), device_->context_, port);
  std::vector<Gid> gids;
  for (const auto& [index, its] : listed) gids.push_back(its);
  const auto chosen = ChooseGid(gids, gid, !IsNamedAfterInterface(device_->name()));
  if (!chosen.has_value()) {
    return absl::UnavailableError(absl::StrCat(
        "RDMA device ", device_->name(), " has no GID for the link's address ", GidText(gid)));
  }
  address_.gid = gids[*chosen];
  gid_index_ = static_cast<std::uint8_t>(listed[*chosen].first);
  return absl::OkStatus();
}

absl::Status VerbsQueuePair::MakeQueues(const QueuePairShape& shape) {
  if (device_->limits_.completion_events) {
    channel_ = verbs().create_comp_channel(device_->context_);
    if (channel_ != nullptr) ::fcntl(channel_->fd, F_SETFL, O_NONBLOCK);
  }
  const int entries = static_cast<int>(2 * shape.messages + 1);
  queue_ = verbs().create_cq(device_->context_, entries, nullptr, channel_, 0);
  return queue_ != nullptr ? absl::OkStatus() : Failed("did not create a completion queue", errno);
}

absl::Status VerbsQueuePair::MakePair(const QueuePairShape& shape) {
  const Limits& limits = device_->limits_;
  is_counted_ = true;
  if (device_->queue_pairs_.fetch_add(1) >= limits.queue_pairs_max) {
    return rail::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                "RDMA device ", device_->name(), " has ", limits.queue_pairs_max,
                                " queue pairs, which is the limit")),
                            LinkReason::kDeviceExhausted);
  }
  const std::uint32_t frames_each = limits.FramesIn(shape.message_bytes);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queue_;
  attributes.recv_cq = queue_;
  attributes.qp_type = service_ == Service::kReliable ? IBV_QPT_RC : IBV_QPT_UC;
  attributes.cap.max_send_wr = std::min(shape.messages * frames_each, limits.frames_max);
  attributes.cap.max_recv_wr = attributes.cap.max_send_wr;
  attributes.cap.max_send_sge = apple::kEntriesMax;
  attributes.cap.max_recv_sge = apple::kEntriesMax;
  pair_ = verbs().create_qp(device_->domain_, &attributes);
  if (pair_ == nullptr) {
    const int error = errno;
    const bool unknown =
        error == EOPNOTSUPP || error == ENOTSUP || error == ENOSYS || error == EINVAL;
    if (service_ == Service::kReliable && unknown) {
      return absl::UnimplementedError(
          absl::StrCat("RDMA device ", device_->name(), " has no reliable queue pairs"));
    }
    if (error != EBUSY) return Failed("did not create a queue pair", error);
    return rail::WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("RDMA device ", device_->name(),
                         " has no queue pair left; other processes use some (the limit for all is ",
                         apple::kQueuePairsMax, ")")),
        LinkReason::kDeviceExhausted);
  }
  ibv_qp_attr now{};
  ibv_qp_init_attr granted{};
  if (verbs().query_qp(pair_, &now, IBV_QP_CAP, &granted) != 0) granted = attributes;
  const std::uint32_t frames =
      std::min({granted.cap.max_send_wr, granted.cap.max_recv_wr, limits.frames_max});
  address_.receives = std::min(shape.messages, frames / frames_each);
  if (messages() >= kMessagesMin) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "RDMA device ", device_->name(), " granted queues of only ", granted.cap.max_recv_wr,
      " frames, too few for ", kMessagesMin, " messages of ", shape.message_bytes, " bytes"));
}

absl::Status VerbsQueuePair::MakeRegion(std::span<std::byte> memory) {
  const Limits& limits = device_->limits_;
  const std::size_t bytes = std::size_t{2} * messages() * slot_bytes_;
  if (bytes > limits.region_bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat("messages of ", bytes,
                                                     " bytes in total exceed a region's limit of ",
                                                     limits.region_bytes_max));
  }
  if (!memory.empty()) {
    if (memory.size() < bytes)
      return absl::InternalError("the memory is too small for the messages");
    given_ = memory.first(bytes);
    if (Register({nullptr, given_.data(), bytes}).ok()) return absl::OkStatus();
  }
  absl::StatusOr<platform::Mapping> mapped = MapMessages(bytes, limits.region_boundary);
  if (!mapped.ok()) return mapped.status();
  const auto own = std::make_shared<const platform::Mapping>(*std::move(mapped));
  return Register({own, own->data(), bytes});
}

absl::Status VerbsQueuePair::Register(const rail::ClientMemory& memory) {
  auto region = device_->Register(memory, memory.data, memory.bytes);
  if (!region.ok()) return region.status();
  region_ = *std::move(region);
  registered_ = memory.data;
  return absl::OkStatus();
}

absl::Status VerbsQueuePair::Initialise() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port_;
  if (device_->limits_.remote_access) {
    attributes.qp_access_flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  }
  const int error = verbs().modify_qp(
      pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return Failed("did not initialise the queue pair", error);
  address_.number = pair_->qp_num;
  // Differs from that of earlier connections. libcrypto's generator is not used: it keeps one for
  // each thread, and a driver's thread may still run when the process exits.
  address_.first_packet = static_cast<std::uint32_t>(std::random_device{}() & 0xffffff);
  return absl::OkStatus();
}

absl::Status VerbsQueuePair::Connect(const QueuePairAddress& peer) {
  const bool after = device_->limits_.receives_after_ready;
  absl::Status status = after ? absl::OkStatus() : PostAllReceives();
  if (status.ok()) status = MakeReadyToReceive(peer);
  if (status.ok()) status = MakeReadyToSend();
  if (status.ok() && after) status = PostAllReceives();
  return status;
}

absl::Status VerbsQueuePair::MakeReadyToReceive(const QueuePairAddress& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = MtuOf(std::min(address_.mtu_bytes, peer.mtu_bytes));
  attributes.rq_psn = peer.first_packet;
  attributes.dest_qp_num = peer.number;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = port_;
  attributes.ah_attr.dlid = peer.lid;
  attributes.ah_attr.grh.hop_limit = 1;  // A neighbour.
  attributes.ah_attr.grh.sgid_index = gid_index_;
  std::memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (service_ == Service::kReliable) {
    attributes.min_rnr_timer = kNotReadyTimer;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  const int error = verbs().modify_qp(pair_, &attributes, mask);
  return error == 0 ? absl::OkStatus() : Failed("did not make the queue pair ready", error);
}

absl::Status VerbsQueuePair::MakeReadyToSend() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = address_.first_packet;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (service_ == Service::kReliable) {
    attributes.timeout = kTimeout;
    attributes.retry_cnt = kRetries;
    attributes.rnr_retry = kNotReadyRetries;
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  const int error = verbs().modify_qp(pair_, &attributes, mask);
  return error == 0 ? absl::OkStatus() : Failed("did not make the queue pair ready to send", error);
}

absl::Status VerbsQueuePair::PostAllReceives() {
  for (std::uint32_t slot = 0; slot < messages(); ++slot) {
    if (absl::Status status = PostReceive(slot); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status VerbsQueuePair::PostReceive(std::uint32_t slot) {
  ibv_sge entry{reinterpret_cast<std::uint64_t>(Registered(slot)), slot_bytes_, region_->key()};
  ibv_recv_wr request{};
  request.wr_id = kReceive | slot;
  request.sg_list = &entry;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(pair_, &request, &refused);
  return error == 0 ? absl::OkStatus() : Failed("refused a receive", error);
}

absl::Status VerbsQueuePair::PostSend(std::uint32_t slot, std::uint32_t bytes) {
  if (device_->limits_.equal_frame_bytes != 0) bytes = slot_bytes_;
  if (is_copied()) std::memcpy(Registered(slot), SlotIn(given_.data(), slot), bytes);
  return Post(slot, {reinterpret_cast<std::uint64_t>(Registered(slot)), bytes, region_->key()});
}

absl::Status VerbsQueuePair::PostSendFrom(std::uint32_t slot, const Region& region,
                                          const std::byte* from, std::uint32_t bytes) {
  if (is_copied()) {
    // Copied in the order of posting, so that a header never confirms data that was written later.
    std::memcpy(Registered(slot), from, bytes);
    return Post(slot, {reinterpret_cast<std::uint64_t>(Registered(slot)), bytes, region_->key()});
  }
  return Post(slot, {reinterpret_cast<std::uint64_t>(from), bytes, region.key()});
}

absl::Status VerbsQueuePair::Post(std::uint32_t slot, ibv_sge entry) {
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(pair_, &request, &refused);
  return error == 0 ? absl::OkStatus() : Failed("refused a send", error);
}

absl::StatusOr<std::size_t> VerbsQueuePair::Poll(std::span<Completion> completions) {
  if (device_->has_gone()) {
    return absl::UnavailableError(absl::StrCat("RDMA device ", device_->name(), " was removed"));
  }
  if (!failed_.ok()) return failed_;
  std::array<ibv_wc, kPollMax> done;
  const int most = static_cast<int>(std::min(completions.size(), kPollMax));
  const int count = ibv_poll_cq(queue_, most, done.data());
  if (count < 0) return Failed("cannot be polled for completions", errno);
  if (count > most) return Failed("returned more completions than requested", EPROTO);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const ibv_wc& from = done[i];
    const bool receive = (from.wr_id & kReceive) != 0;
    if (from.status != IBV_WC_SUCCESS) {
      failed_ = absl::UnavailableError(
          absl::StrCat(receive ? "a receive" : "a send", " failed: ",
                       verbs().wc_status_str != nullptr
                           ? std::string(verbs().wc_status_str(from.status))
                           : absl::StrCat("status ", static_cast<int>(from.status))));
      if (i == 0) return failed_;
      return i;
    }
    completions[i] = {static_cast<std::uint32_t>(from.wr_id), receive, receive ? from.byte_len : 0};
    const Completion& reported = completions[i];
    const bool has_bytes =
        reported.receive && reported.slot < messages() && reported.bytes <= slot_bytes_;
    if (is_copied() && has_bytes) {
      std::memcpy(SlotIn(given_.data(), reported.slot), Registered(reported.slot), reported.bytes);
    }
  }
  return static_cast<std::size_t>(count);
}

absl::Status VerbsQueuePair::Arm() {
  if (channel_ == nullptr) return absl::OkStatus();
  ibv_cq* queue = nullptr;
  void* cookie = nullptr;
  while (verbs().get_cq_event(channel_, &queue, &cookie) == 0) verbs().ack_cq_events(queue, 1);
  const int error = ibv_req_notify_cq(queue_, 0);
  return error == 0 ? absl::OkStatus() : Failed("did not arm its completion queue", error);
}

// First destroys what may write to the region. What the driver does not give back is leaked, and
// counts.
VerbsQueuePair::~VerbsQueuePair() {
  if (pair_ != nullptr && verbs().destroy_qp(pair_) != 0) {
    Leave(std::move(region_));
    return;
  }
  if (is_counted_) device_->queue_pairs_.fetch_sub(1);
  region_.reset();
  if (queue_ != nullptr) verbs().destroy_cq(queue_);
  if (channel_ != nullptr) verbs().destroy_comp_channel(channel_);
}

}  // namespace mlxcomm::rdma
