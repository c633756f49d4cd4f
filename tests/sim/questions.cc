#include "tests/sim/questions.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/discovery/topology.h"
#include "daemon/node/peer_probes.h"
#include "daemon/node/status_parts.h"
#include "tests/sim/reported.h"

namespace mlxcomm::sim {
namespace {

// From a deadline to its answer: the turns of a busy loop.
constexpr std::uint64_t kSlackNs = 100 * kMillisecond;
// The search for a ring among more nodes takes a long time.
constexpr int kNodesLookedAt = 24;
// Reported here, not by a daemon.
constexpr char kLostMeanwhile[] = "lost";

std::string WrongInJob(const v1::JobStatus& job) {
  for (const v1::RankStatus& rank : job.ranks()) {
    if (rank.rank() >= job.size()) {
      return absl::StrCat("job ", job.name(), " of ", job.size(), " has rank ", rank.rank());
    }
  }
  for (int i = 1; i < job.ranks_size(); ++i) {
    if (job.ranks(i - 1).rank() > job.ranks(i).rank()) return "ranks are not in order";
  }
  for (const v1::WaitStatus& wait : job.waits()) {
    for (const std::uint32_t rank : wait.awaited()) {
      if (rank >= job.size()) return absl::StrCat("waits for rank ", rank, " of ", job.size());
    }
  }
  return {};
}

std::string WrongInStatus(const std::string& asked, const v1::StatusReply& status) {
  if (status.nodes_size() == 0 || status.nodes(0).name() != asked || !status.nodes(0).answered()) {
    return "the node that was asked is not the first";
  }
  std::set<std::string> ids;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (!ids.insert(node.id()).second) return absl::StrCat("node ", node.name(), " is there twice");
  }
  for (const v1::JobStatus& job : status.jobs()) {
    if (std::string wrong = WrongInJob(job); !wrong.empty()) return wrong;
  }
  if (status.nodes_size() > kNodesLookedAt) return {};
  const v1::TopologyReply topology = discovery::TopologyOf(status);
  if (topology.shape().empty()) return "the cables form nothing";
  return {};
}

}  // namespace

template <typename Reply>
std::unique_ptr<node::Answer<Reply>> Questions::Expect(
    const char* what, Host& host, std::uint64_t within_ns,
    std::function<std::string(const Reply&)> check) {
  const std::uint64_t number = next_++;
  open_[number] = {
      what, &host, host.life(), schedule_.now_ns(), within_ns, ledger_.stopped_ns(host.index())};
  return std::make_unique<Reported<Reply>>(
      [this, number, check = std::move(check)](const Reply& reply) { Close(number, check(reply)); },
      [this, number](const Failure& failure) {
        Close(number, absl::StrCat("was refused: ", failure.message));
      });
}

void Questions::Close(std::uint64_t number, const std::string& wrong) {
  const Open open = open_.at(number);
  open_.erase(number);
  ++answered_;
  const std::uint64_t took = schedule_.now_ns() - open.asked_ns;
  const std::uint64_t stopped = ledger_.stopped_ns(open.host->index()) - open.stopped_ns;
  if (took > open.within_ns + stopped + kSlackNs) {
    complain_(absl::StrCat(open.host->name(), ": ", open.what, " was answered after ",
                           took / kMillisecond, " ms"));
  }
  if (!wrong.empty()) complain_(absl::StrCat(open.host->name(), ": ", open.what, ": ", wrong));
}

void Questions::Ask() {
  Host& host = *hosts_[random_.Below(hosts_.size())];
  if (host.state() != Host::State::kRunning) return;
  switch (random_.Below(3)) {
    case 0: return AskStatus(host);
    case 1: return AskPing(host);
    default: return AskDoctor(host);
  }
}

void Questions::AskStatus(Host& host) {
  auto answer = Expect<std::shared_ptr<const node::StatusParts>>(
      "status", host, node::StatusCalls::kRoundNs + node::StatusCalls::kWaitNs,
      [this, name = host.name()](const std::shared_ptr<const node::StatusParts>& parts) {
        if (parts->own.nodes_size() > 1) {
          const int others = parts->own.nodes_size() - 1;
          CountWhole(parts->answers.size() == static_cast<std::size_t>(others));
        }
        return WrongInStatus(name, node::MergeStatus(*parts));
      });
  host.daemon()->Post([answer = std::move(answer)](node::Node& node) mutable {
    node.Status({}, std::move(answer));
  });
}

void Questions::AskPing(Host& host) {
  const Host& other = *hosts_[random_.Below(hosts_.size())];
  bool known = false;
  host.daemon()->links().ForEach([&](const link::Link& link) {
    if (link.reachable() && link.peer().id == other.id()) known = true;
  });
  if (!known) return;
  v1::PingRequest request;
  request.set_node(other.name());
  request.set_payload_bytes(random_.Below32(4096));
  auto answer =
      Expect<v1::PingReply>("ping", host, node::PeerProbes::kTimeoutMsDefault * kMillisecond,
                            [this, name = other.name()](const v1::PingReply& reply) -> std::string {
                              if (reply.node() != name) return "another node was asked";
                              if (reply.round_trip_ns() == 0 && reply.why_not().empty())
                                return "neither time nor reason";
                              if (reply.round_trip_ns() != 0 && !reply.why_not().empty())
                                return "a time and a reason";
                              if (reply.why_not() != kLostMeanwhile)
                                CountWhole(reply.round_trip_ns() != 0);
                              return {};
                            });
  host.daemon()->Post([request, answer = std::move(answer)](node::Node& node) mutable {
    // The node may be lost by now, so an answer that reports that is correct.
    bool there = false;
    node.links().ForEach([&](const link::Link& link) {
      if (link.reachable() && link.peer().name == request.node()) there = true;
    });
    if (there) return node.Ping(request, std::move(answer));
    v1::PingReply lost;
    lost.set_node(request.node());
    lost.set_why_not(kLostMeanwhile);
    answer->Succeed(lost);
  });
}

void Questions::AskDoctor(Host& host) {
  auto answer = Expect<v1::DoctorReply>(
      "doctor", host, node::SystemChecks::kPatienceNs + node::PeerProbes::kCheckupWaitNs,
      [this, name = host.name()](const v1::DoctorReply& reply) -> std::string {
        if (reply.node() != name || reply.nodes_size() == 0) return "the node itself is missing";
        if (reply.nodes(0).name() != name) return "it is not first";
        int answered = 0;
        for (const v1::NodeCheckup& node : reply.nodes()) answered += node.answered() ? 1 : 0;
        if (reply.nodes_size() > 1) CountWhole(answered == reply.nodes_size());
        return {};
      });
  host.daemon()->Post(
      [answer = std::move(answer)](node::Node& node) mutable { node.Doctor(std::move(answer)); });
}

void Questions::CountWhole(bool whole) {
  ++of_others_;
  if (whole) ++whole_;
}

void Questions::ExpectMostWhole() {
  constexpr std::uint64_t kEnough = 10;
  if (of_others_ < kEnough || 2 * whole_ >= of_others_) return;
  complain_(absl::StrCat("of ", of_others_,
                         " questions that concern other nodes these have answered ", whole_,
                         ", though nothing was wrong"));
}

void Questions::ExpectNoneOpen() {
  for (const auto& [number, open] : open_) {
    const bool same = open.host->life() == open.life && open.host->state() == Host::State::kRunning;
    const bool late = schedule_.now_ns() - open.asked_ns > 2 * kSecond;
    if (same && late) {
      complain_(absl::StrCat(open.host->name(), ": ", open.what, " is never answered"));
    }
  }
}

}  // namespace mlxcomm::sim
