// The half of Engine between the fabric and whoever its frames and nodes concern: the
// collective core by way of the carrier, rendezvous, shrink, status.
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/engine.h"
#include "daemon/work_pieces.h"

namespace mlxcomm {

absl::Status Engine::SendFrame(const NodeId& node, const wire::FrameHeader& header,
                               const std::byte* payload, std::uint64_t cookie) {
  return fabric_->Send(node, header, payload, cookie);
}

absl::Status Engine::PostReceive(const NodeId& node, const fabric::PostedReceive& receive) {
  return fabric_->PostReceive(node, receive);
}

void Engine::Withdraw(const NodeId& node, const OperationKey& key) { fabric_->Withdraw(node, key); }

void Engine::CancelFrames(const NodeId& node, const OperationKey& key) {
  fabric_->Cancel(node, key);
}

bool Engine::SubmitWork(const collective::LocalWork& work, std::uint64_t cookie) {
  if (HasSeveralPieces(work) &&
      workers_->Submit(&work, cookie, RecordedName(collectives_.KeyOfWork(cookie)))) {
    return true;
  }
  workers_->CountOwn(work);
  return false;
}

void Engine::Complete(const collective::Action& action) {
  intake_->Complete(action.session, action.ticket, action.key.group, action.failure,
                    action.group_failed);
}

void Engine::OnMessageNotSent(const NodeId& node, const absl::Status& why) {
  const auto level = absl::IsInternal(why) ? spdlog::level::err : spdlog::level::debug;
  spdlog::log(level, "message to node {}: {}", rendezvous_.NodeName(node),
              std::string(why.message()));
}

void Engine::CountViolation(const NodeId& node, bool fine) {
  if (fine) return;
  ++violations_;
  spdlog::error("node {} sent a frame that fits no operation ({} so far)",
                rendezvous_.NodeName(node), violations_);
}

void Engine::OnEager(const NodeId& node, const wire::FrameHeader& header,
                     std::span<const std::byte> payload) {
  CountViolation(node, carrier_.OnEager(node, header, payload, now_ns_));
}

void Engine::OnGrant(const NodeId& node, const wire::FrameHeader& header) {
  CountViolation(node, carrier_.OnGrant(node, header, now_ns_));
}

void Engine::OnCredit(const NodeId& node, const wire::FrameHeader& header) {
  CountViolation(node, carrier_.OnCredit(node, header));
}

void Engine::OnDataReceived(const NodeId& node, const wire::FrameHeader& header) {
  CountViolation(node, carrier_.OnDataReceived(node, header, now_ns_));
}

void Engine::OnDataReleased(const NodeId&, std::uint64_t cookie) {
  collectives_.OnDataReleased(cookie);
}

void Engine::OnWithdrawn(const NodeId& node, const OperationKey& key) {
  collectives_.OnWithdrawn(node, key, now_ns_);
}

void Engine::OnNodeUp(const fabric::NodeIdentity& node) {
  nodes_[node.id] = node;
  TellEvent("node_up", telemetry::EventSeverity::kNote, absl::StrCat("node ", node.name),
            absl::StrCat("is up, mlxcommd ", node.software_version));
  rendezvous_.OnNodeUp(node.id, node.name);
  forming_worlds_.OnNodeUp(node.id);
  shrink_.OnNodeUp(node.id);
}

void Engine::OnNodeLost(const NodeId& node, const absl::Status& why) {
  nodes_.erase(node);
  const std::string name = rendezvous_.NodeName(node);
  TellEvent("node_lost", telemetry::EventSeverity::kError, absl::StrCat("node ", name),
            absl::StrCat("is lost: ", std::string(why.message())));
  probes_.OnNodeLost(node);
  rendezvous_.OnNodeLost(node);
  for (auto& [query, call] : status_calls_) std::erase(call.awaited, node);
  collectives_.OnNodeLost(node, absl::StrCat("node ", name, ": ", std::string(why.message())),
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
      return carrier_.OnFailureReport(node, message.failure_report(), now_ns_);
    case v1::PeerMessage::kRankDetached:
      return carrier_.OnRankDetached(node, message.rank_detached(), now_ns_);
    case v1::PeerMessage::kRollCall: return carrier_.OnRollCall(node, message.roll_call(), now_ns_);
    case v1::PeerMessage::kWorldJoined:
      return forming_worlds_.OnJoined(node, message.world_joined().group());
    case v1::PeerMessage::kWorldReady:
      return forming_worlds_.OnReady(node, message.world_ready().group());
    case v1::PeerMessage::kStatusQuery: return OnStatusQuery(node, message.status_query().query());
    case v1::PeerMessage::kStatusAnswer: return OnStatusAnswer(node, message.status_answer());
    case v1::PeerMessage::kProbe: return OnProbe(node, message.probe());
    case v1::PeerMessage::kProbeAnswer:
      return CountViolation(node, probes_.OnAnswer(node, message.probe_answer(), ClocksNow()));
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
  carrier_.SendMessage(node, message);
}

void Engine::SendToAllNodes(const v1::PeerMessage& message) {
  for (const auto& [id, node] : nodes_) SendToNode(id, message);
}

}  // namespace mlxcomm
