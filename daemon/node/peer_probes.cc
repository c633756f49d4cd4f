#include "daemon/node/peer_probes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::node {
namespace {

const Failure kTooMany{FailureCode::kResourceExhausted, kNoRank,
                       "too many nodes are being asked at once: try again"};

}  // namespace

void PeerProbes::Ping(const link::NodeIdentity& node, const v1::PingRequest& request,
                      v1::LinkStatus link, Clocks now, std::unique_ptr<PingAnswer> answer) {
  if (request.payload_bytes() > kPayloadBytesMax || request.timeout_ms() > kTimeoutMsMax) {
    return answer->Fail(
        Invalid(absl::StrCat("a ping carries at most ", kPayloadBytesMax,
                             " bytes and waits for at most ", kTimeoutMsMax, " ms")));
  }
  if (asks_.size() >= kAsksMax) return answer->Fail(kTooMany);
  const std::uint64_t query = next_query_++;
  Ask& ask = asks_[query];
  ask.ping = std::move(answer);
  ask.node = node.name;
  ask.payload_bytes = request.payload_bytes();
  ask.link = std::move(link);
  ask.awaited[node.id] = 0;
  ask.begun = now;
  const std::uint32_t wait_ms =
      request.timeout_ms() == 0 ? kTimeoutMsDefault : request.timeout_ms();
  ask.deadline_ns = now.monotonic_ns + std::uint64_t{wait_ms} * 1'000'000;
  v1::PeerMessage message;
  message.mutable_probe()->set_query(query);
  message.mutable_probe()->set_payload(std::string(request.payload_bytes(), '\0'));
  send_(node.id, message);
}

void PeerProbes::Checkup(const std::vector<link::NodeIdentity>& nodes, v1::DoctorReply reply,
                         Clocks now, std::vector<std::unique_ptr<DoctorAnswer>> answers) {
  if (asks_.size() >= kAsksMax) {
    for (const auto& answer : answers) answer->Fail(kTooMany);
    return;
  }
  const std::uint64_t query = next_query_++;
  Ask& ask = asks_[query];
  ask.checkups = std::move(answers);
  ask.begun = now;
  ask.deadline_ns = now.monotonic_ns + kCheckupWaitNs;
  ask.reply = std::move(reply);
  v1::PeerMessage message;
  message.mutable_probe()->set_query(query);
  message.mutable_probe()->set_checkup(true);
  for (const link::NodeIdentity& node : nodes) {
    ask.awaited[node.id] = ask.reply.nodes_size();
    v1::NodeCheckup& other = *ask.reply.add_nodes();
    other.set_name(node.name);
    other.set_version(node.software_version);
  }
  for (const link::NodeIdentity& node : nodes) send_(node.id, message);
  if (!ask.awaited.empty()) return;
  Finish(ask, {});
  asks_.erase(query);
}

bool PeerProbes::OnAnswer(const NodeId& node, const v1::ProbeAnswer& answer, Clocks now) {
  const auto found = asks_.find(answer.query());
  if (found == asks_.end()) return true;  // It arrived too late.
  Ask& ask = found->second;
  const auto awaited = ask.awaited.find(node);
  if (awaited == ask.awaited.end()) return false;
  if (ask.ping != nullptr && answer.payload().size() != ask.payload_bytes) return false;
  const std::uint64_t round_trip_ns = now.monotonic_ns - ask.begun.monotonic_ns;
  if (ask.ping != nullptr) {
    v1::PingReply reply;
    reply.set_node(ask.node);
    reply.set_round_trip_ns(round_trip_ns);
    *reply.mutable_link() = ask.link;
    ask.ping->Succeed(reply);
    asks_.erase(found);
    return true;
  }
  v1::NodeCheckup& reported = *ask.reply.mutable_nodes(awaited->second);
  const std::string name = reported.name();
  const std::string version = reported.version();
  reported = answer.checkup();
  reported.set_name(name);  // The node has proved this name.
  reported.set_version(version);
  reported.set_answered(true);
  // It read its clock at an unknown point of the round trip.
  const std::uint64_t middle_ns = ask.begun.unix_ns + round_trip_ns / 2;
  reported.set_clock_offset_ns(static_cast<std::int64_t>(reported.unix_ns() - middle_ns));
  reported.set_clock_uncertainty_ns(round_trip_ns / 2);
  ask.awaited.erase(awaited);
  if (ask.awaited.empty()) {
    Finish(ask, {});
    asks_.erase(found);
  }
  return true;
}

void PeerProbes::Finish(Ask& ask, const std::string& why_not) {
  if (ask.ping != nullptr) {
    v1::PingReply reply;
    reply.set_node(ask.node);
    reply.set_why_not(why_not);
    *reply.mutable_link() = ask.link;
    return ask.ping->Succeed(reply);
  }
  auto& nodes = *ask.reply.mutable_nodes();
  std::ranges::sort(nodes.begin() + 1, nodes.end(), {}, &v1::NodeCheckup::name);
  for (const auto& checkup : ask.checkups) checkup->Succeed(ask.reply);
}

void PeerProbes::OnNodeLost(const NodeId& node) {
  for (auto at = asks_.begin(); at != asks_.end();) {
    Ask& ask = at->second;
    const bool last = ask.awaited.erase(node) > 0 && ask.awaited.empty();
    if (last) Finish(ask, "was lost before it answered");
    at = last ? asks_.erase(at) : std::next(at);
  }
}

void PeerProbes::OnTime(std::uint64_t now_ns) {
  for (auto at = asks_.begin(); at != asks_.end();) {
    const bool late = at->second.deadline_ns <= now_ns;
    if (late) Finish(at->second, "has not answered in time");
    at = late ? asks_.erase(at) : std::next(at);
  }
}

std::uint64_t PeerProbes::NextDeadline() const {
  std::uint64_t next = kNever;
  for (const auto& [query, ask] : asks_) next = std::min(next, ask.deadline_ns);
  return next;
}

}  // namespace mlxcomm::node
