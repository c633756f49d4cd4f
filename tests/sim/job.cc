#include "tests/sim/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::sim {
namespace {

// To the other's current life; null if it is not reachable.
const link::Link* LinkBetween(Host& from, Host& to) {
  const link::Link* found = nullptr;
  from.daemon()->links().ForEach([&](const link::Link& link) {
    const bool is_it = link.reachable() && link.peer().id == to.id() &&
                       link.peer().incarnation == to.incarnation();
    if (is_it) found = &link;
  });
  return found;
}

bool HoldSameSessions(const link::Link& a, const link::Link* b) {
  return b != nullptr && a.standing().session == b->standing().known_peer_session &&
         b->standing().session == a.standing().known_peer_session;
}

}  // namespace

Job::Job(Schedule& schedule, JobOptions options, const Ledger& ledger, JobListener& listener,
         Random random)
    : schedule_(schedule),
      options_(std::move(options)),
      ledger_(ledger),
      listener_(listener),
      random_(random),
      program_(MakeProgram(options_.program, random_.Fork("program"))) {}

// All its hosts run and, if the job waits for that, each has the others' current daemons as peers
// in sessions that both hold.
bool Job::MayStart() const {
  std::vector<Host*> hosts = options_.hosts;
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const bool all_run = std::all_of(hosts.begin(), hosts.end(), [](const Host* host) {
    return host->state() == Host::State::kRunning;
  });
  if (!all_run || !options_.waits_for_links) return all_run;
  return std::all_of(hosts.begin(), hosts.end(), [&](Host* from) {
    return std::all_of(hosts.begin(), hosts.end(), [&](Host* to) {
      if (to == from) return true;
      const link::Link* const link = LinkBetween(*from, *to);
      return link != nullptr && HoldSameSessions(*link, LinkBetween(*to, *from));
    });
  });
}

void Job::Start() {
  started_ns_ = schedule_.now_ns();
  listener_.Log(absl::StrCat(name(), ": starts with ", options_.hosts.size(), " ranks"));
  for (std::uint32_t rank = 0; rank < options_.hosts.size(); ++rank) {
    Host& host = *options_.hosts[rank];
    clients_.push_back(std::make_unique<Client>(*this, rank, host, options_.client,
                                                options_.fates[rank], random_.Fork("client")));
    clients_.back()->set_session(listener_.NewSession(host, *clients_.back()));
  }
  for (const auto& client : clients_) client->Start();
}

bool Job::done() const {
  return over() || (started() && std::all_of(clients_.begin(), clients_.end(),
                                             [](const auto& client) { return client->done(); }));
}

std::uint64_t Job::finished_calls() const {
  std::uint64_t finished = 0;
  for (const auto& client : clients_) finished += client->finished_calls();
  return finished;
}

std::string Job::Describe() const {
  if (!started()) return absl::StrCat(name(), " has not started");
  std::string text = name();
  for (const auto& client : clients_) {
    if (client->done()) continue;
    absl::StrAppend(&text, "\n    rank ", client->rank(), " on ", client->host().name(), " ",
                    client->Describe());
  }
  return text;
}

void Job::OnHostEnded(const Host& host) {
  for (const auto& client : clients_) {
    if (&client->host() != &host || client->gone()) continue;
    client->OnDaemonEnded();
    departed_.insert(client->rank());
    ++gone_;
  }
}

void Job::EndHalted() {
  for (const auto& client : clients_) {
    if (client->halted() && !client->gone()) client->Exit();
  }
}

void Job::OnFault(const std::string& what) {
  ++faults_;
  listener_.Log(absl::StrCat(name(), ": ", what));
}

void Job::OnGivesUp(const Client& client, const char* what) {
  departed_.insert(client.rank());
  OnFault(absl::StrCat("rank ", client.rank(), " gives up ", what));
}

void Job::OnGone(const Client& client) {
  ++gone_;
  departed_.insert(client.rank());
  listener_.Log(absl::StrCat(name(), ": rank ", client.rank(), " has gone after ",
                             client.finished_calls(), " calls"));
}

void Job::LogCall(const Client& client, const Step& step, std::size_t index, const char* what) {
  if (!listener_.logs()) return;
  const oracle::Operation& o = step.operation;
  std::string text =
      absl::StrCat(name(), ": rank ", client.rank(), " ", what, " step ", index, ": ");
  if (step.kind == Step::Kind::kSplit) {
    absl::StrAppend(&text, "split to group ", step.group);
  } else if (step.kind == Step::Kind::kRelease) {
    absl::StrAppend(&text, "release of group ", step.group);
  } else {
    absl::StrAppend(&text, OperationKindName(o.kind), " ", ReduceOperatorName(o.op), " ",
                    DataTypeName(o.type), "[", o.count, "] in group ", step.group);
  }
  if (step.kind == Step::Kind::kMessage) {
    absl::StrAppend(&text, " from rank ", step.source, " to rank ", step.destination, " tag ",
                    step.tag);
  }
  listener_.Log(text);
}

void Job::Complain(const std::string& what) {
  listener_.Complain(absl::StrCat(name(), ": ", what));
}

std::string Job::WrongIn(std::size_t index, const Step& step, std::uint32_t rank,
                         const oracle::Bytes& output) {
  oracle::Operation o = step.operation;
  if (step.kind == Step::Kind::kMessage && rank == step.destination) {
    o.kind = OperationKind::kReceive;
    o.root = step.source;
  }
  if (!o.ShapeFor(rank).writes) return {};
  const std::string what = absl::StrCat(OperationKindName(o.kind), " ", DataTypeName(o.type), "[",
                                        o.count, "] over ", o.size, " ranks is wrong");
  const auto known = same_for_all_.find(index);
  if (known != same_for_all_.end()) {
    if (known->second == output) return {};
    return absl::StrCat(what, ", or not as another rank has it");
  }
  const std::int64_t wrong = oracle::FirstWrong(o, rank, output);
  if (wrong >= 0) return absl::StrCat("element ", wrong, " of ", what);
  if (o.kind == OperationKind::kAllReduce || o.kind == OperationKind::kAllGather ||
      o.kind == OperationKind::kAllGatherV || o.kind == OperationKind::kBroadcast) {
    same_for_all_[index] = output;
    if (same_for_all_.size() > kResultsKept) same_for_all_.erase(same_for_all_.begin());
  }
  return {};
}

bool Job::MayBeLost(std::uint32_t rank) const {
  if (departed_.contains(rank)) return true;
  const std::size_t host = options_.hosts[rank]->index();
  return std::any_of(options_.hosts.begin(), options_.hosts.end(), [&](const Host* other) {
    return other->index() != host && ledger_.MayBeLost(other->index(), host, started_ns_);
  });
}

bool Job::AnyMayBeLost() const {
  for (std::uint32_t rank = 0; rank < clients_.size(); ++rank) {
    if (MayBeLost(rank)) return true;
  }
  return false;
}

bool Job::AnyIs(const std::function<bool(const Client&)>& property) const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [&](const auto& client) { return property(*client); });
}

void Job::Judge(const Client& client, const char* where, const Failure& failure,
                const std::string& wrong) {
  schedule_.Note(static_cast<std::uint64_t>(failure.code) ^
                 Mix(static_cast<std::uint64_t>(failure.rank)));
  if (failures_++ < 3) {
    listener_.Log(absl::StrCat(name(), ": rank ", client.rank(), " is told ",
                               FailureCodeName(failure.code), " ", where, ": ", failure.message));
  }
  if (wrong.empty()) return;
  Complain(absl::StrCat("rank ", client.rank(), " ", where, " was told ",
                        FailureCodeName(failure.code), " (", failure.message, "), but ", wrong));
}

void Job::OnFailure(const Client& client, std::uint32_t group, const Failure& failure) {
  Judge(client, absl::StrCat("in group ", group).c_str(), failure, WhyWrong(group, failure));
}

void Job::OnJoined(const Client& client, std::uint64_t group) {
  if (world_ == 0) world_ = group;
  if (world_ == group) return;
  Complain(absl::StrCat("rank ", client.rank(), " has joined a different group from the others"));
}

void Job::OnNotJoined(const Client& client, const Failure& failure) {
  Judge(client, "joining", failure, WhyNotJoinedWrong(client, failure));
}

std::vector<std::uint32_t> Job::RanksOf(std::uint64_t main_group) const {
  if (const auto found = left_.find(main_group); found != left_.end()) return found->second;
  std::vector<std::uint32_t> all(clients_.size());
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) all[rank] = rank;
  return all;
}

// Some rank may be lost, and the named rank is one of them.
std::string Job::WhyLossWrong(const Failure& failure,
                              const std::vector<std::uint32_t>& ranks) const {
  if (!AnyMayBeLost()) return "nobody is lost, and all hosts can reach each other";
  if (failure.rank < 0) return "";
  const auto named = static_cast<std::size_t>(failure.rank);
  if (named >= ranks.size()) return "there is no such rank";
  return MayBeLost(ranks[named]) ? "" : absl::StrCat("nothing is wrong with rank ", ranks[named]);
}

// For a deadline: it has passed.
std::string Job::WhyEndedWrong(const Client& client) const {
  if (client.asked_for_ns() >= client.asked_timeout_ns()) return "";
  return absl::StrCat("it has waited for ", client.asked_for_ns() / kMillisecond, " ms of ",
                      client.asked_timeout_ns() / kMillisecond);
}

std::string Job::WhyNotJoinedWrong(const Client& client, const Failure& failure) const {
  switch (failure.code) {
    case FailureCode::kRankLost:
    case FailureCode::kUnavailable: return WhyLossWrong(failure, RanksOf(0));
    case FailureCode::kDeadlineExceeded:
      return AnyMayBeLost() ? WhyEndedWrong(client) : "nobody is missing";
    case FailureCode::kCancelled: return client.gave_up() ? "" : "it has not given up";
    case FailureCode::kMismatch:  // Those that were released a moment earlier.
      return !failure.message.empty() && AnyIs([](const Client& c) { return c.has_differed(); })
                 ? ""
                 : "all have called the same";
    default: return "this may not happen here";
  }
}

void Job::OnShrunk(const Client& client, const v1::GroupReply& reply) {
  std::vector<std::uint32_t> ranks;
  for (const v1::Member& member : reply.members()) {
    ranks.push_back(static_cast<std::uint32_t>(member.pid() - 1000));
    const bool right = ranks.back() < options_.hosts.size() &&
                       member.node() == options_.hosts[ranks.back()]->name();
    if (!right) return Complain("a group that has shrunk has a member that the job has not");
  }
  listener_.Log(absl::StrCat(name(), ": rank ", client.rank(), " is rank ", reply.rank(), " of ",
                             ranks.size(), " that are left, group ", reply.group()));
  if (reply.rank() >= ranks.size() || ranks[reply.rank()] != client.rank()) {
    Complain(absl::StrCat("rank ", client.rank(), " was told of another's place"));
  }
  const auto [known, is_new] = left_.try_emplace(reply.group(), ranks);
  if (!is_new && known->second != ranks) {
    return Complain("ranks of a group that has shrunk do not agree who is left");
  }
  for (std::uint32_t rank = 0; is_new && rank < clients_.size(); ++rank) {
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end() || MayBeLost(rank)) continue;
    Complain(absl::StrCat("rank ", rank, " was left out, but nothing is wrong with it"));
  }
}

void Job::OnNotShrunk(const Client& client, const Failure& failure) {
  Judge(client, "shrinking", failure, WhyNotShrunkWrong(client, failure));
}

std::string Job::WhyNotShrunkWrong(const Client& client, const Failure& failure) const {
  switch (failure.code) {
    case FailureCode::kRankLost:
    case FailureCode::kUnavailable: return WhyLossWrong(failure, RanksOf(client.main_group()));
    case FailureCode::kDeadlineExceeded: return WhyEndedWrong(client);
    case FailureCode::kInvalidArgument:
      return client.lost_elsewhere() ? "" : "the group that is to shrink has failed";
    case FailureCode::kCancelled: return client.gave_up() ? "" : "it has not given up";
    default: return "this may not happen here";
  }
}

void Job::OnFailureAfterShrink(const Client& client, const Failure& failure) {
  const bool loss =
      failure.code == FailureCode::kRankLost || failure.code == FailureCode::kUnavailable;
  Judge(client, "after shrinking", failure,
        loss ? WhyLossWrong(failure, RanksOf(client.main_group()))
        : failure.code == FailureCode::kDeadlineExceeded ? "nobody halts after a shrink"
                                                         : "this may not happen here");
}

// Empty if it is true, as far as this can be known here.
std::string Job::WhyWrong(std::uint32_t group, const Failure& failure) const {
  const std::vector<std::uint32_t>& members = program_.groups[group].members;
  const bool named = failure.rank >= 0;
  if (named && static_cast<std::size_t>(failure.rank) >= members.size()) {
    return "there is no such rank";
  }
  const std::uint32_t culprit = named ? members[static_cast<std::size_t>(failure.rank)] : 0;
  switch (failure.code) {
    case FailureCode::kRankLost:
      if (!named) return "nobody is named";
      return MayBeLost(culprit) ? "" : absl::StrCat("nothing is wrong with rank ", culprit);
    case FailureCode::kDeadlineExceeded:
      // Ranks that made different calls may learn it only at their deadline; until then they make
      // no more calls.
      return AnyIs([&](const Client& c) {
        return c.halted() || c.has_stopped_for_loss() || c.has_differed_elsewhere(group);
      })
                 ? ""
                 : "nobody has stopped calling";
    case FailureCode::kMismatch:
      return AnyIs([](const Client& c) { return c.has_differed(); }) ? ""
                                                                     : "all have called the same";
    case FailureCode::kUnavailable: return AnyMayBeLost() ? "" : "all hosts can reach each other";
    default: return "this may not happen here";
  }
}

}  // namespace mlxcomm::sim
