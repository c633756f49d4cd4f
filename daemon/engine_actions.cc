// The half of Engine between the collective core and the fabric: carries out
// actions, and turns frames into events.
#include <cstring>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/engine.h"
#include "daemon/reduce/kernels.h"

namespace mlxcomm {
namespace {

collective::PeerFrame FrameOf(const wire::FrameHeader& header) {
  return {{header.group, header.number, header.source_rank, header.destination_rank, header.tag},
          header.step,
          header.digest,
          header.offset,
          header.payload_bytes,
          (header.flags & wire::kSolicited) != 0};
}

// A reduction in the 32 bits that a posted receive has for it. Ranks are far below 2^16.
std::uint32_t Pack(const reduce::Reduction& reduction) {
  return reduction.divisor << 16 | static_cast<std::uint32_t>(reduction.type) << 8 |
         static_cast<std::uint32_t>(reduction.op);
}

reduce::Reduction Unpack(std::uint32_t packed) {
  return {static_cast<DataType>(packed >> 8 & 0xff), static_cast<ReduceOperator>(packed & 0xff),
          packed >> 16};
}

// On a rail's thread: operand op received, while both are in the cache.
void CombineReceived(const fabric::PostedReceive& receive, std::uint64_t offset,
                     const std::byte* staged, std::uint32_t bytes) {
  const reduce::Reduction reduction = Unpack(receive.place_arguments);
  const std::byte* const inputs[] = {receive.operand + offset, staged};
  std::byte* const output = receive.destination + offset;
  reduce::Combine(reduction, inputs, 2, &output, 1, bytes / DataTypeBytes(reduction.type),
                  reduce::Stores::kOrdinary);
}

}  // namespace

// Carrying out an action may cause others; all are done before the turn goes on.
void Engine::CarryOut() {
  while (!collectives_.actions().empty()) {
    carrying_.swap(collectives_.actions());
    for (collective::Action& action : carrying_) CarryOutOne(action);
    carrying_.clear();
  }
}

void Engine::CarryOutOne(collective::Action& action) {
  using Kind = collective::Action::Kind;
  switch (action.kind) {
    case Kind::kSendEager: return SendFrame(action, wire::FrameType::kEager);
    case Kind::kSendData: return SendFrame(action, wire::FrameType::kData);
    case Kind::kSendGrant: return SendFrame(action, wire::FrameType::kGrant);
    case Kind::kSendCredit: return SendFrame(action, wire::FrameType::kCredit);
    case Kind::kPostReceive: return PostReceive(action);
    case Kind::kWithdraw:
      if (!fabric_->IsReachable(action.node)) {
        return collectives_.OnWithdrawn(action.node, action.key, now_ns_);
      }
      return fabric_->Withdraw(action.node, action.key);
    case Kind::kCancel: return fabric_->Cancel(action.node, action.key);
    case Kind::kLocalWork: return DoLocalWork(action);
    case Kind::kReturnScratch: return scratch_.Return(action.destination);
    case Kind::kComplete:
      return intake_->Complete(action.session, action.ticket, action.key.group, action.failure,
                               action.group_failed);
    case Kind::kReport: return SendReport(action);
    case Kind::kDetached: {
      v1::PeerMessage message;
      message.mutable_rank_detached()->set_group(action.key.group);
      message.mutable_rank_detached()->set_rank(action.rank);
      message.mutable_rank_detached()->set_collectives(action.bytes);
      return SendToNode(action.node, message);
    }
  }
}

void Engine::SendFrame(const collective::Action& action, wire::FrameType type) {
  wire::FrameHeader header;
  header.type = type;
  header.step = action.step;
  header.group = action.key.group;
  header.number = action.key.number;
  header.source_rank = action.key.source_rank;
  header.destination_rank = action.key.destination_rank;
  header.tag = action.key.tag;
  header.digest = action.digest;
  header.offset = action.offset;
  if (action.solicited) header.flags = wire::kSolicited;
  if (type == wire::FrameType::kCredit) header.offset = action.bytes;
  if (type == wire::FrameType::kEager || type == wire::FrameType::kData) {
    header.payload_bytes = static_cast<std::uint32_t>(action.bytes);
  }
  const absl::Status sent = fabric_->Send(action.node, header, action.source, action.cookie);
  if (sent.ok()) return;
  // The node is lost, and the group hears of that by itself; nothing refers to the
  // payload. It fails first, so that what was not sent is not taken for received.
  if (collective::Group* const group = collectives_.Find(action.key.group); group != nullptr) {
    group->Fail({FailureCode::kUnavailable, kNoRank,
                 absl::StrCat("cannot send: ", std::string(sent.message()))},
                action.key, now_ns_);
  }
  if (type == wire::FrameType::kData) collectives_.OnDataReleased(action.cookie, now_ns_);
}

void Engine::PostReceive(const collective::Action& action) {
  fabric::PostedReceive receive;
  receive.key = action.key;
  receive.step = action.step;
  receive.bytes = action.bytes;
  receive.destination = action.destination;
  if (action.operand != nullptr) {
    receive.place = &CombineReceived;
    receive.operand = action.operand;
    receive.place_arguments = Pack({action.type, action.op, action.divisor});
  }
  const absl::Status posted = fabric_->PostReceive(action.node, receive);
  if (posted.ok()) return;
  if (collective::Group* const group = collectives_.Find(action.key.group); group != nullptr) {
    group->Fail({FailureCode::kUnavailable, kNoRank,
                 absl::StrCat("cannot receive: ", std::string(posted.message()))},
                action.key, now_ns_);
  }
}

void Engine::DoLocalWork(const collective::Action& action) {
  if (Workers::IsWorthwhile(*action.work) && workers_->Submit(action.work, action.cookie, RecordedName(action.key))) {
    return;
  }
  Workers::Do(*action.work);
  collectives_.OnLocalWorkDone(action.cookie, now_ns_);
}

void Engine::SendReport(const collective::Action& action) {
  const collective::FailureReport& report = *action.report;
  v1::PeerMessage message;
  v1::FailureReport& told = *message.mutable_failure_report();
  told.set_group(report.group);
  told.set_code(static_cast<std::uint32_t>(report.cause.code));
  told.set_rank(report.cause.rank);
  told.set_message(report.cause.message);
  v1::OperationName& operation = *told.mutable_operation();
  operation.set_point_to_point(report.operation.point_to_point());
  operation.set_source_rank(report.operation.source_rank);
  operation.set_destination_rank(report.operation.destination_rank);
  operation.set_tag(report.operation.tag);
  operation.set_number(report.operation.number);
  for (const collective::RankCall& call : report.calls) {
    v1::RankCall& rank_call = *told.add_calls();
    rank_call.set_rank(call.rank);
    rank_call.set_called(call.called);
    rank_call.set_call(call.call);
  }
  SendToNode(action.node, message);
}

void Engine::OnFailureReport(const NodeId& node, const v1::FailureReport& message) {
  collective::FailureReport report;
  report.group = message.group();
  const auto code = static_cast<FailureCode>(message.code());
  report.cause.code =
      message.code() <= 255 && IsValid(code) ? code : FailureCode::kInternal;
  report.cause.rank = message.rank();
  report.cause.message = message.message();
  report.operation.group = message.group();
  report.operation.number = message.operation().number();
  if (message.operation().point_to_point()) {
    report.operation.source_rank = message.operation().source_rank();
    report.operation.destination_rank = message.operation().destination_rank();
    report.operation.tag = message.operation().tag();
  }
  for (const v1::RankCall& call : message.calls()) {
    report.calls.push_back({call.rank(), call.called(), call.call()});
  }
  collectives_.OnReport(node, report, now_ns_);
  membership_.SpreadLoss(report.group, now_ns_);
}

void Engine::CountViolation(const NodeId& node, bool fine) {
  if (fine) return;
  ++violations_;
  spdlog::error("node {} sent a frame that fits no operation ({} so far)",
                rendezvous_.NodeName(node), violations_);
}

void Engine::OnEager(const NodeId& node, const wire::FrameHeader& header,
                     std::span<const std::byte> payload) {
  CountViolation(node, collectives_.OnEager(node, FrameOf(header), payload, now_ns_));
}

void Engine::OnGrant(const NodeId& node, const wire::FrameHeader& header) {
  CountViolation(node, collectives_.OnGrant(node, FrameOf(header), now_ns_));
}

void Engine::OnCredit(const NodeId& node, const wire::FrameHeader& header) {
  CountViolation(node, collectives_.OnCredit(node, header.group, header.offset));
}

void Engine::OnDataReceived(const NodeId& node, const wire::FrameHeader& header) {
  CountViolation(node, collectives_.OnData(node, FrameOf(header), now_ns_));
}

void Engine::OnDataReleased(const NodeId&, std::uint64_t cookie) {
  collectives_.OnDataReleased(cookie, now_ns_);
}

void Engine::OnWithdrawn(const NodeId& node, const OperationKey& key) {
  collectives_.OnWithdrawn(node, key, now_ns_);
}

void Engine::OnNodeUp(const fabric::NodeIdentity& node) {
  nodes_[node.id] = node;
  rendezvous_.OnNodeUp(node.id, node.name);
  shrink_.OnNodeUp(node.id);
}

void Engine::OnNodeLost(const NodeId& node, const absl::Status& why) {
  nodes_.erase(node);
  rendezvous_.OnNodeLost(node);
  for (auto& [query, call] : status_calls_) std::erase(call.awaited, node);
  collectives_.OnNodeLost(node, absl::StrCat("node ", rendezvous_.NodeName(node), ": ",
                                             std::string(why.message())),
                          now_ns_);
  CarryOut();
  shrink_.OnNodeLost(node);
}

void Engine::OnControl(const NodeId& node, std::span<const std::byte> bytes) {
  v1::PeerMessage message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return CountViolation(node, false);
  }
  switch (message.body_case()) {
    case v1::PeerMessage::kRankAnnounced:
      return rendezvous_.OnRankAnnounced(node, message.rank_announced());
    case v1::PeerMessage::kRankWithdrawn:
      return rendezvous_.OnRankWithdrawn(node, message.rank_withdrawn());
    case v1::PeerMessage::kWorldFormed:
      return rendezvous_.OnWorldFormedElsewhere(node, message.world_formed());
    case v1::PeerMessage::kWorldRefused:
      return rendezvous_.OnWorldRefused(node, message.world_refused());
    case v1::PeerMessage::kFailureReport:
      return OnFailureReport(node, message.failure_report());
    case v1::PeerMessage::kRankDetached:
      return collectives_.OnDetached(node, message.rank_detached().group(),
                                     message.rank_detached().rank(),
                                     message.rank_detached().collectives(), now_ns_);
    case v1::PeerMessage::kWorldJoined:
      return OnWorldJoined(node, message.world_joined().group());
    case v1::PeerMessage::kWorldReady: {
      const auto forming = forming_.find(message.world_ready().group());
      if (forming == forming_.end() || forming->second.coordinator != node) return;
      forming->second.ready = true;
      return FinishForming();
    }
    case v1::PeerMessage::kStatusQuery: return OnStatusQuery(node, message.status_query().query());
    case v1::PeerMessage::kStatusAnswer: return OnStatusAnswer(node, message.status_answer());
    case v1::PeerMessage::kShrinkState:
      return CountViolation(node, shrink_.OnState(node, message.shrink_state()));
    case v1::PeerMessage::kShrinkFormed:
      return CountViolation(node, shrink_.OnFormed(node, message.shrink_formed()));
    case v1::PeerMessage::kShrinkJoined: return shrink_.OnJoined(node, message.shrink_joined());
    case v1::PeerMessage::kShrinkReady: return shrink_.OnReady(node, message.shrink_ready());
    case v1::PeerMessage::BODY_NOT_SET: return CountViolation(node, false);
  }
}

void Engine::SendToNode(const NodeId& node, const v1::PeerMessage& message) {
  const std::string bytes = message.SerializeAsString();
  if (bytes.size() > wire::kControlBytesMax) {
    spdlog::error("message of {} bytes to node {} is too large", bytes.size(),
                  rendezvous_.NodeName(node));
    return;
  }
  wire::FrameHeader header;
  header.type = wire::FrameType::kControl;
  header.payload_bytes = static_cast<std::uint32_t>(bytes.size());
  const absl::Status sent =
      fabric_->Send(node, header, reinterpret_cast<const std::byte*>(bytes.data()), 0);
  if (!sent.ok()) spdlog::debug("message to a node: {}", std::string(sent.message()));
}

void Engine::SendToAllNodes(const v1::PeerMessage& message) {
  for (const auto& [id, node] : nodes_) SendToNode(id, message);
}

}  // namespace mlxcomm
