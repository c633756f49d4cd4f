#include "daemon/node/node.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "proto/types/plain_text.h"
#include "proto/wire/frame.h"

namespace mlxcomm::node {

using record::EventSeverity;

Node::Node(NodeOptions options, collective::ScratchMemory& scratch,
           record::FlightRecorder& recorder, record::OperationCounts& counts,
           record::EventSink& events, intake::Processes& processes, NodePort& port,
           std::function<std::uint64_t()> clock, std::uint64_t now_ns)
    : options_(std::move(options)),
      port_(port),
      processes_(processes),
      now_ns_(now_ns),
      started_ns_(now_ns),
      clock_(std::move(clock)),
      recorder_(recorder, counts, now_ns_, clock_),
      collectives_(options_.fabric.self.id, scratch, options_.credit, &recorder_,
                   options_.is_stopped),
      links_(options_.fabric, *this),
      jobs_(
          options_, options_.fabric.self, collectives_, links_, nodes_, recorder_, processes,
          events,
          [this](collective::Call& call, std::uint64_t age_ns) {
            if (SetRank(call)) Submit(call, age_ns);
          },
          now_ns_),
      runner_(collectives_, scratch, links_, jobs_, processes, port),
      events_(events),
      status_calls_([this](auto& node, auto& message) { runner_.SendMessage(node, message); },
                    [this](OwnPart& part) { return WriteOwnPart(part); }),
      probes_([this](auto& node, auto& message) { runner_.SendMessage(node, message); }),
      system_checks_(port) {}

void Node::Discover(discovery::DiscoveryPort& port) {
  const link::FabricOptions& fabric = options_.fabric;
  discovery_.emplace(
      discovery::DiscoveryOptions{fabric.self, fabric.cluster, *options_.hello_keys, fabric.random},
      port);
}

void Node::ReadClock() { now_ns_ = std::max(now_ns_, clock_()); }

bool Node::EndTurn() {
  const bool due = NextDeadline() <= now_ns_;
  if (due) {
    collectives_.OnTime(now_ns_);
    jobs_.OnTime();
    status_calls_.OnTime(now_ns_);
    probes_.OnTime(now_ns_);
    system_checks_.OnTime(now_ns_);
    if (discovery_due_ns_ <= now_ns_) {
      discovery_->OnTime(now_ns_);
      LookAtDiscovery();
    }
  }
  CarryOut();
  jobs_.CleanUp();
  return due;
}

std::uint64_t Node::NextDeadline() const {
  return std::min({collectives_.NextDeadline(), jobs_.NextDeadline(), status_calls_.NextDeadline(),
                   probes_.NextDeadline(), system_checks_.NextDeadline(), discovery_due_ns_});
}

void Node::OnInterfaceUp(const discovery::Discovery::Interface& interface) {
  if (!discovery_) return;
  ReadClock();
  discovery_->OnInterfaceUp(interface, now_ns_);
  LookAtDiscovery();
}

void Node::OnInterfaceDown(const std::string& name) {
  if (!discovery_) return;
  discovery_->OnInterfaceDown(name);
  LookAtDiscovery();
}

void Node::OnHello(const std::string& interface, const wire::AddressBytes& from,
                   std::span<const std::uint8_t> datagram) {
  if (!discovery_) return;
  ReadClock();
  discovery_->OnDatagram(interface, from, datagram, now_ns_);
  LookAtDiscovery();
}

link::NodeClaim Node::ClaimOf(const NodeId& node) const {
  if (jobs_.HasRanksOn(node)) return link::NodeClaim::kInJob;
  const bool found = discovery_ && discovery_->Hears(node, now_ns_);
  return found ? link::NodeClaim::kFound : link::NodeClaim::kComes;
}

void Node::SetHelloKeys(const std::vector<DerivedKey>& keys) {
  if (discovery_) discovery_->SetKeys(keys);
}

void Node::OnSessionEnded(SessionId session, const std::string& why) {
  ReadClock();
  jobs_.OnSessionEnded(session, why);
  CarryOut();
}

void Node::OnSubmission(collective::Call& call) {
  if (!SetRank(call)) return;
  if (IsPointToPoint(call.signature.kind)) return Submit(call, 0);
  call.number = jobs_.direct_groups().NumberOf(call);
  Submit(call, 0);
  jobs_.direct_groups().AfterSubmission(call.group);
}

void Node::OnCloseAsked(SessionId session, std::uint64_t group) {
  if (jobs_.membership().RankOf(session, group) != nullptr) jobs_.direct_groups().Close(group);
  processes_.AnswerClose(session, group);
}

bool Node::SetRank(collective::Call& call) {
  const std::uint32_t* const rank = jobs_.membership().RankOf(call.session, call.group);
  if (rank == nullptr) {
    processes_.Complete(call.session, call.ticket, call.group,
                        Invalid("group: this process has not joined it"), false);
    return false;
  }
  call.rank = *rank;
  return true;
}

void Node::Submit(collective::Call& call, std::uint64_t age_ns) {
  if (call.timeout_ns == 0) call.timeout_ns = options_.operation_timeout_ns;
  call.by_liveness = call.timeout_ns == 0;
  if (call.by_liveness) call.timeout_ns = options_.stalled_timeout_ns;
  call.timeout_ns -= std::min(age_ns, call.timeout_ns - 1);
  collectives_.Submit(call, now_ns_);
}

void Node::FailAll(const Failure& failure) {
  ReadClock();
  jobs_.FailAll(failure);
  CarryOut();
}

void Node::AnswerOpenCalls(const Failure& failure) {
  jobs_.RefuseShrinking(failure);
  CarryOut();
  probes_.Clear();
  system_checks_.Clear();
  status_calls_.Clear();
  doctors_.clear();
}

void Node::OnNodeUp(const link::NodeIdentity& node) {
  ReadClock();
  nodes_[node.id] = node;
  events_.Report("node_up", EventSeverity::kNote, absl::StrCat("node ", node.name),
                 absl::StrCat("is up, mlxcommd ", node.software_version));
  jobs_.OnNodeUp(node);
  if (jobs_.HasRanksOn(node.id)) links_.Prepare(node.id);  // It comes after the group was made.
}

void Node::OnNodeLost(const NodeId& node, const absl::Status& why) {
  ReadClock();
  nodes_.erase(node);
  const std::string name = jobs_.rendezvous().NodeName(node);
  const std::string text(why.message());
  events_.Report("node_lost", EventSeverity::kError, absl::StrCat("node ", name),
                 absl::StrCat("is lost: ", text));
  probes_.OnNodeLost(node);
  jobs_.BeforeNodeLost(node);
  status_calls_.OnNodeLost(node);
  collectives_.OnNodeLost(node, absl::StrCat("node ", name, ": ", text), now_ns_);
  CarryOut();
  jobs_.AfterNodeLost(node);
}

void Node::OnNotice(const link::FabricNotice& notice) {
  using Kind = link::FabricNotice::Kind;
  const auto report = [&](const char* kind, const std::string& subject, const std::string& text) {
    events_.Report(kind, EventSeverity::kWarning, subject, text);
  };
  const std::string link = absl::StrCat("link to ", notice.node);
  const std::string rail =
      notice.path.empty() ? "the route through other nodes" : absl::StrCat("rail ", notice.path);
  switch (notice.kind) {
    case Kind::kRailUp:
      return events_.Report("rail_up", EventSeverity::kNote, link, absl::StrCat(rail, " is up"));
    case Kind::kRailDown:
      return report("rail_down", link, absl::StrCat(rail, " is down: ", notice.why));
    case Kind::kLinkWaits:
      return report(
          "link_waits", link,
          absl::StrCat("no rail is left: ", notice.why, "; waiting for one to come back"));
    case Kind::kDialFails: return report("dial_fails", notice.node, notice.why);
    case Kind::kStrangerRefused:
      return report("stranger_refused", notice.node,
                    absl::StrCat("refused at the peer port: ", notice.why));
    case Kind::kNodeRefused:
      return report("node_refused", notice.node, absl::StrCat("refused: ", notice.why));
  }
}

void Node::ReportSameId(const std::string& node, const std::string& address) {
  events_.Report("same_id", EventSeverity::kError, absl::StrCat("node ", node),
                 absl::StrCat("another machine, at ", address, ", has the same node id"));
}

// Of the two daemons, the node is linked only with this one, and learns of the other from it.
void Node::OnSameId(const NodeId& node, const std::string& address) {
  ReportSameId(links_.NameOf(node), address);
  if (!links_.IsReachable(node)) return;
  v1::PeerMessage message;
  message.mutable_same_id_seen()->set_address(address);
  runner_.SendMessage(node, message);
}

void Node::CountViolation(const NodeId& node, const std::string& what) {
  ++violations_;
  port_.OnViolation(node, what);
}

void Node::ExpectFrame(const NodeId& node, bool fine, const wire::FrameHeader& header) {
  if (fine) return;
  CountViolation(node,
                 absl::StrCat("frame ", static_cast<int>(header.type), " for step ", header.step,
                              " of operation ", header.number, " matches no operation"));
}

void Node::OnControl(const NodeId& node, std::span<const std::byte> bytes) {
  v1::PeerMessage message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return CountViolation(node, "a message that cannot be read");
  }
  const bool fine = OnMessage(node, message);
  jobs_.CarryOut();
  if (fine) return;
  CountViolation(node, absl::StrCat("message ", static_cast<int>(message.body_case()),
                                    " that breaks the protocol"));
}

bool Node::OnMessage(const NodeId& node, v1::PeerMessage& message) {
  switch (message.body_case()) {
    case v1::PeerMessage::kFailureReport:
      jobs_.BeforeFailureReport(message.failure_report().group());
      runner_.OnFailureReport(node, *message.mutable_failure_report(), now_ns_);
      return true;
    case v1::PeerMessage::kRankDetached: {
      const v1::RankDetached& left = message.rank_detached();
      collectives_.OnDetached(node, left.group(), left.rank(), left.collectives(), now_ns_);
      return true;
    }
    case v1::PeerMessage::kRollCall:
      runner_.OnRollCall(node, *message.mutable_roll_call(), now_ns_);
      return true;
    case v1::PeerMessage::kStatusQuery:
      status_calls_.OnQuery(node, message.status_query(), now_ns_);
      return true;
    case v1::PeerMessage::kStatusAnswer:
      status_calls_.OnAnswer(node, std::move(*message.mutable_status_answer()));
      return true;
    case v1::PeerMessage::kProbe: return OnProbe(node, message.probe());
    case v1::PeerMessage::kProbeAnswer:
      return probes_.OnAnswer(node, message.probe_answer(), port_.ReadClocks());
    case v1::PeerMessage::kSameIdSeen: {
      const std::string address = MakePrintable(message.same_id_seen().address());
      spdlog::error("node {} reports that another machine, at {}, has this node's id",
                    links_.NameOf(node), address);
      ReportSameId(options_.fabric.self.name, address);
      return true;
    }
    case v1::PeerMessage::BODY_NOT_SET: return false;
    default: return jobs_.OnMessage(node, message);
  }
}

bool Node::WriteOwnPart(OwnPart& part) {
  v1::StatusReply& reply = part.reply;
  if (!part.jobs) {
    jobs_.direct_groups().Harvest();
    reply.set_node(options_.fabric.self.name);
    reply.set_cluster(options_.fabric.cluster);
    WriteNode(Own(), *reply.add_nodes());
    part.jobs.emplace(Own(), part.viewers, reply);
  }
  if (!part.jobs->WriteSome(Own(), reply)) return false;
  WriteForming(Own(), reply);
  jobs_.history().Write(now_ns_, *reply.mutable_ended_jobs());
  for (const auto& [id, node] : nodes_) {
    v1::NodeStatus& other = *reply.add_nodes();
    other.set_name(node.name);
    other.set_id(id.ToString());
    other.set_version(node.software_version);
    other.set_state("up");
    part.others.push_back(id);
  }
  return true;
}

NodeMetrics Node::Metrics() {
  ReadClock();
  jobs_.direct_groups().Harvest();
  NodeMetrics metrics;
  WriteNode(Own(), metrics.node);
  for (const auto& [job, groups] : GroupsByJob(Own())) {
    if (groups.main != nullptr) ++metrics.jobs[StateOf(*groups.main)];
  }
  v1::StatusReply rest;
  WriteForming(Own(), rest);
  if (rest.jobs_size() > 0) metrics.jobs["forming"] = static_cast<std::uint64_t>(rest.jobs_size());
  jobs_.history().Write(now_ns_, *rest.mutable_ended_jobs());
  for (const v1::EndedJob& job : rest.ended_jobs())
    ++metrics.ended_jobs[job.code().empty() ? "OK" : job.code()];
  metrics.violations = violations_;
  return metrics;
}

void Node::Ping(const v1::PingRequest& request, std::unique_ptr<PingAnswer> answer) {
  ReadClock();
  std::string known;
  for (const auto& [id, node] : nodes_) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", node.name);
    if (node.name != request.node() && id.ToString() != request.node()) continue;
    v1::NodeStatus links;
    WriteLinks(Own(), links);
    v1::LinkStatus way;
    for (const v1::LinkStatus& link : links.links()) {
      if (link.peer() == node.name) way = link;
    }
    return probes_.Ping(node, request, std::move(way), port_.ReadClocks(), std::move(answer));
  }
  const link::NodeIdentity& self = options_.fabric.self;
  const bool is_self = request.node() == self.name || request.node() == self.id.ToString();
  answer->Fail(Invalid(absl::StrCat(
      is_self ? absl::StrCat(self.name, " is this node: ping needs another one")
              : absl::StrCat("no node \"", request.node(), "\" can be reached from ", self.name),
      known.empty() ? "; it is linked to none" : "; it reaches ", known)));
}

v1::NodeCheckup Node::CheckupOf(const v1::NodeCheckup& seen) const {
  v1::NodeCheckup checkup = seen;
  checkup.set_name(options_.fabric.self.name);
  checkup.set_version(options_.fabric.self.software_version);
  checkup.set_key_file(options_.key_file);
  checkup.set_config_file(options_.config_file);
  for (const std::string& address : port_.Listening()) checkup.add_listening(address);
  checkup.set_unix_ns(port_.ReadClocks().unix_ns);
  return checkup;
}

// All calls that arrive until the machine has been examined get the same answer.
void Node::Doctor(std::unique_ptr<DoctorAnswer> answer) {
  ReadClock();
  if (doctors_.size() >= SystemChecks::kWaitingMax) {
    return answer->Fail({FailureCode::kResourceExhausted, kNoRank,
                         "too many check-ups are in progress: try again"});
  }
  doctors_.push_back(std::move(answer));
  if (doctors_.size() > 1) return;
  system_checks_.Ask(now_ns_, [this](const v1::NodeCheckup& seen) {
    v1::DoctorReply reply;
    reply.set_node(options_.fabric.self.name);
    reply.set_cluster(options_.fabric.cluster);
    v1::NodeCheckup& own = *reply.add_nodes();
    own = CheckupOf(seen);
    own.set_answered(!seen.system().empty());  // Every system has a name.
    std::vector<link::NodeIdentity> others;
    for (const auto& [id, node] : nodes_) others.push_back(node);
    probes_.Checkup(others, std::move(reply), port_.ReadClocks(), std::exchange(doctors_, {}));
  });
}

void Node::OnSystemChecked(v1::NodeCheckup seen) {
  ReadClock();
  system_checks_.OnSystemChecked(std::move(seen), now_ns_);
  CarryOut();
}

bool Node::OnProbe(const NodeId& node, const v1::Probe& probe) {
  if (!PeerProbes::IsFine(probe)) return false;
  v1::PeerMessage message;
  v1::ProbeAnswer& answer = *message.mutable_probe_answer();
  answer.set_query(probe.query());
  if (!probe.checkup()) {
    answer.set_payload(probe.payload());
    runner_.SendMessage(node, message);
    return true;
  }
  if (!system_checks_.HasRoom()) return true;  // The asking node times out after a second.
  system_checks_.Ask(now_ns_, [this, node, message](const v1::NodeCheckup& seen) {
    v1::PeerMessage reported = message;
    *reported.mutable_probe_answer()->mutable_checkup() = CheckupOf(seen);
    runner_.SendMessage(node, reported);
  });
  return true;
}

}  // namespace mlxcomm::node
