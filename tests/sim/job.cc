#include "tests/sim/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::sim {
namespace {

// To the other's present life; null: it is not reachable.
const fabric::Link* LinkBetween(Host& from, Host& to) {
  const fabric::Link* found = nullptr;
  from.daemon()->links().ForEach([&](const fabric::Link& link) {
    const bool is_it = link.reachable() && link.peer().id == to.id() &&
                       link.peer().incarnation == to.incarnation();
    if (is_it) found = &link;
  });
  return found;
}

bool HoldSameSessions(const fabric::Link& a, const fabric::Link* b) {
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

// Each has the others' present daemons for peers, and rank 0's goes on with each of the others in
// sessions that both hold: the ranks have announced themselves to it in these, and in these it
// tells of the world.
bool Job::MayStart() const {
  std::vector<Host*> hosts = options_.hosts;
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const bool all_run = std::all_of(hosts.begin(), hosts.end(), [](const Host* host) {
    return host->state() == Host::State::kRunning;
  });
  if (!all_run) return false;
  Host* const first = options_.hosts[0];
  return std::all_of(hosts.begin(), hosts.end(), [&](Host* from) {
    return std::all_of(hosts.begin(), hosts.end(), [&](Host* to) {
      if (to == from) return true;
      const fabric::Link* const link = LinkBetween(*from, *to);
      if (link == nullptr) return false;
      return from != first || HoldSameSessions(*link, LinkBetween(*to, *from));
    });
  });
}

// As Engine::OnWorldFormed, everywhere at once: the rendezvous is not part of this.
void Job::Start() {
  started_ns_ = schedule_.now_ns();
  listener_.Log(absl::StrCat(name(), ": starts with ", options_.hosts.size(), " ranks"));
  std::vector<collective::Member> members;
  for (std::uint32_t rank = 0; rank < options_.hosts.size(); ++rank) {
    Host& host = *options_.hosts[rank];
    members.push_back({host.id(), host.name(), rank + 1000});
    clients_.push_back(nullptr);
  }
  std::vector<collective::SessionId> sessions;
  for (std::uint32_t rank = 0; rank < options_.hosts.size(); ++rank) {
    Host& host = *options_.hosts[rank];
    clients_[rank] = std::make_unique<Client>(*this, rank, host, options_.client,
                                              options_.fates[rank], random_.Fork("client"));
    sessions.push_back(listener_.NewSession(host, *clients_[rank]));
    clients_[rank]->set_session(sessions.back());
  }
  std::vector<Host*> told;
  for (Host* const host : options_.hosts) {
    if (std::find(told.begin(), told.end(), host) != told.end()) continue;
    told.push_back(host);
    std::vector<collective::SessionId> local = sessions;
    for (std::uint32_t rank = 0; rank < local.size(); ++rank) {
      if (options_.hosts[rank] != host) local[rank] = 0;
    }
    if (!host->daemon()->membership().AddWorld(options_.program.group, {"", name()}, members, local,
                                               options_.costs, schedule_.now_ns())) {
      Complain("its world group could not be made");
    }
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

void Job::OnGone(const Client& client) {
  ++gone_;
  departed_.insert(client.rank());
  listener_.Log(absl::StrCat(name(), ": rank ", client.rank(), " has gone after ",
                             client.finished_calls(), " calls"));
}

void Job::LogCall(const Client& client, std::size_t index, const char* what) {
  if (!listener_.logs()) return;
  const Step& step = program_.steps[index];
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

bool Job::MayBeLost(std::uint32_t rank) const {
  if (departed_.contains(rank)) return true;
  const std::size_t host = options_.hosts[rank]->index();
  return std::any_of(options_.hosts.begin(), options_.hosts.end(), [&](const Host* other) {
    return other->index() != host && ledger_.MayBeLost(other->index(), host, started_ns_);
  });
}

void Job::OnFailure(const Client& client, std::uint32_t group, const Failure& failure) {
  schedule_.Note(static_cast<std::uint64_t>(failure.code) ^
                 Mix(static_cast<std::uint64_t>(failure.rank)));
  if (failures_++ < 3) {
    listener_.Log(absl::StrCat(name(), ": rank ", client.rank(), " is told ",
                               FailureCodeName(failure.code), ": ", failure.message));
  }
  const std::string wrong = WhyWrong(group, failure);
  if (wrong.empty()) return;
  Complain(absl::StrCat("rank ", client.rank(), " in group ", group, " was told ",
                        FailureCodeName(failure.code), " (", failure.message, "), but ", wrong));
}

// Empty: it is true, as far as this can be known here.
std::string Job::WhyWrong(std::uint32_t group, const Failure& failure) const {
  const std::vector<std::uint32_t>& members = program_.groups[group].members;
  const bool named = failure.rank >= 0;
  if (named && static_cast<std::size_t>(failure.rank) >= members.size()) {
    return "there is no such rank";
  }
  const std::uint32_t culprit = named ? members[static_cast<std::size_t>(failure.rank)] : 0;
  const auto any_client = [this](auto property) {
    return std::any_of(clients_.begin(), clients_.end(),
                       [&](const auto& client) { return property(*client); });
  };
  const bool someone_lost = [&] {
    for (std::uint32_t rank = 0; rank < clients_.size(); ++rank) {
      if (MayBeLost(rank)) return true;
    }
    return false;
  }();
  switch (failure.code) {
    case FailureCode::kRankLost:
      if (!named) return "nobody is named";
      return MayBeLost(culprit) ? "" : absl::StrCat("nothing is wrong with rank ", culprit);
    case FailureCode::kDeadlineExceeded:
      return any_client([](const Client& c) { return c.halted(); }) ? ""
                                                                    : "nobody has stopped calling";
    case FailureCode::kMismatch:
      return any_client([](const Client& c) { return c.has_differed(); })
                 ? ""
                 : "all have called the same";
    case FailureCode::kUnavailable: return someone_lost ? "" : "all hosts can reach each other";
    default: return "this may not happen here";
  }
}

}  // namespace mlxcomm::sim
