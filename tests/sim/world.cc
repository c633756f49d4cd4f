#include "tests/sim/world.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/connection.h"

namespace mlxcomm::sim {
namespace {

constexpr std::size_t kComplaintsMax = 8;
// How long a job waits for its hosts in total, and once cables join them.
constexpr std::uint64_t kWaitsNs = 40 * kSecond;
constexpr std::uint64_t kJoinsNs = 15 * kSecond;
constexpr std::uint64_t kWatchNs = 50 * kMillisecond;
// After the last job: everything in transit has arrived and been acknowledged by then.
constexpr std::uint64_t kQuietNs = 8 * kSecond;
constexpr std::uint64_t kAcknowledgesNs = kSecond;
// Per mille of hellos that are lost, or after which one is replayed.
constexpr std::uint64_t kHellosLost = 20;
constexpr std::uint64_t kHellosPlayedBack = 20;
constexpr std::size_t kRecordedMax = 256;

NodeId MakeId(Random& random) {
  NodeId id;
  for (std::uint8_t& byte : id.bytes) byte = static_cast<std::uint8_t>(random.Below(256));
  return id;
}

wire::AddressBytes AddressOf(std::size_t cable, int side) {
  wire::AddressBytes address{};
  address[0] = 0xfe;
  address[1] = 0x80;
  address[13] = static_cast<std::uint8_t>(cable >> 8);
  address[14] = static_cast<std::uint8_t>(cable);
  address[15] = static_cast<std::uint8_t>(1 + side);
  return address;
}

}  // namespace

World::World(const Scenario& scenario, std::function<void(const std::string&)> log)
    : scenario_(scenario),
      log_(std::move(log)),
      random_(scenario.seed),
      ledger_(schedule_, scenario.hosts, scenario.settles_ns, scenario.lost_after_ns) {
  MakeHosts();
  MakeCables();
  MakeJobs();
  MakeFaults();
  questions_ = std::make_unique<Questions>(schedule_, random_.Fork("questions"), hosts_, ledger_,
                                           [this](const std::string& what) { Complain(what); });
  if (scenario_.asks_every_ns_max > 0) AskSoon();
}

World::~World() = default;

void World::MakeHosts() {
  Random random = random_.Fork("hosts");
  held_.assign(scenario_.hosts, 0);
  for (std::size_t i = 0; i < scenario_.hosts; ++i) {
    DaemonOptions options = scenario_.daemon;
    options.node.fabric.self.id = MakeId(random);
    options.node.fabric.self.name = absl::StrCat("h", i);
    options.node.fabric.self.software_version = "sim";
    if (scenario_.discovers) options.node.hello_keys = {DerivedKey{}};
    names_[options.node.fabric.self.id] = options.node.fabric.self.name;
    hosts_.push_back(std::make_unique<Host>(i, schedule_, std::move(options), scenario_.rails,
                                            *this, random.Fork("host")));
  }
}

void World::MakeCables() {
  Random random = random_.Fork("cables");
  pulled_.assign(scenario_.cables.size(), 0);
  for (std::size_t i = 0; i < scenario_.cables.size(); ++i) {
    const CablePlan& plan = scenario_.cables[i];
    CableOptions options = plan.options;
    options.name = absl::StrCat("c", i);
    Cable& cable = *cables_.emplace_back(std::make_unique<Cable>(options, random.Fork("cable")));
    ledger_.AddEdge({plan.a, plan.b});
    Host& a = *hosts_[plan.a];
    Host& b = *hosts_[plan.b];
    Port port;
    port.cable = &cable;
    port.peer = &b;
    port.dials = plan.a_dials;
    port.interface = absl::StrCat("en", i, "a");
    port.peer_interface = absl::StrCat("en", i, "b");
    port.address = AddressOf(i, 0);
    port.peer_address = AddressOf(i, 1);
    a.AddPort(port);
    std::swap(port.interface, port.peer_interface);
    std::swap(port.address, port.peer_address);
    port.side = 1;
    port.peer = &a;
    port.dials = plan.b_dials;
    b.AddPort(port);
  }
  for (const auto& host : hosts_) {
    schedule_.After(random.Below(50 * kMillisecond), [&host = *host] { host.PowerOn(); });
  }
}

void World::MakeJobs() {
  Random random = random_.Fork("jobs");
  for (std::size_t i = 0; i < scenario_.jobs.size(); ++i) {
    const JobPlan& plan = scenario_.jobs[i];
    JobOptions options;
    options.name = absl::StrCat("job", i);
    options.program = plan.program;
    for (const std::size_t host : plan.hosts) options.hosts.push_back(hosts_[host].get());
    options.fates = plan.fates;
    options.client = plan.client;
    options.waits_for_links = plan.waits_for_links;
    options.starts_ns = plan.starts_ns;
    options.late_ns_max = scenario_.daemon.node.fabric.heartbeat_timeout_ns + 2 * kSecond;
    jobs_.push_back(
        std::make_unique<Job>(schedule_, std::move(options), ledger_, *this, random.Fork("job")));
    schedule_.At(plan.starts_ns, [this, &job = *jobs_.back()] { StartWhenPossible(job); });
  }
}

void World::StartWhenPossible(Job& job) {
  if (job.MayStart()) return job.Start();
  const std::vector<Host*>& hosts = job.hosts();
  const bool joined = std::all_of(hosts.begin(), hosts.end(), [&](const Host* host) {
    return host->state() == Host::State::kRunning &&
           ledger_.AreJoined(hosts[0]->index(), host->index());
  });
  const std::uint64_t now = schedule_.now_ns();
  if (!joined) job.may_start_since_ns = now;
  if (now - std::max(job.may_start_since_ns, job.starts_ns()) > kJoinsNs) {
    job.GiveUp();
    return Complain(
        absl::StrCat(job.name(), ": its hosts are joined, but do not reach each other"));
  }
  if (now - job.starts_ns() > kWaitsNs) return job.GiveUp();
  schedule_.After(20 * kMillisecond, [this, &job] { StartWhenPossible(job); });
}

void World::MakeFaults() {
  for (const Fault& fault : scenario_.faults) {
    schedule_.At(fault.at_ns, [this, &fault] { Begin(fault); });
  }
}

// Daemons are queried occasionally, until the run is over.
void World::AskSoon() {
  schedule_.After(random_.Below(scenario_.asks_every_ns_max), [this] {
    if (AllDone() && healed_) return;
    questions_->Ask();
    AskSoon();
  });
}

void World::SetCable(std::size_t index, bool up) {
  Cable& cable = *cables_[index];
  if (cable.up() == up) return;
  cable.SetUp(up);
  ledger_.SetEdge(index, up && cable.Passes(Cable::kSmallBytes + 1));
  Log(absl::StrCat("cable ", cable.options().name, " between h", scenario_.cables[index].a,
                   " and h", scenario_.cables[index].b, up ? " is back" : " is pulled"));
  std::erase_if(cable.connections, [](const auto& old) { return old.expired(); });
  for (const auto& weak : cable.connections) {
    const auto connection = weak.lock();
    up ? connection->OnCableBack() : connection->OnCableDown();
  }
  if (!cable.options().carrier_reports) return;
  for (const std::size_t end : {scenario_.cables[index].a, scenario_.cables[index].b}) {
    const std::uint64_t delay = random_.Below(20 * kMillisecond);
    schedule_.After(delay, [this, end, &cable, up] {
      if (cable.up() == up) hosts_[end]->OnCarrier(cable, up);
    });
  }
}

// The cable drops large packets without a report to the hosts.
void World::SetSmallOnly(std::size_t index, bool small_only) {
  Cable& cable = *cables_[index];
  if (cable.Passes(Cable::kSmallBytes + 1) != small_only) return;  // It is in this state already.
  Log(absl::StrCat("cable ", cable.options().name,
                   small_only ? " carries only small packets" : " carries packets of any size"));
  cable.SetSmallOnly(small_only);
  if (cable.up()) ledger_.SetEdge(index, !small_only);
  if (small_only || !cable.up()) return;
  for (const auto& weak : cable.connections) {
    if (const auto connection = weak.lock()) connection->OnCableBack();
  }
}

void World::Begin(const Fault& fault) {
  if (healed_) return;
  ++outcome_.faults;
  if (fault.kind == Fault::Kind::kPull) {
    if (++pulled_[fault.target] == 1) SetCable(fault.target, false);
  } else if (fault.kind == Fault::Kind::kRate) {
    Log(absl::StrCat("cable c", fault.target, " carries ", fault.bytes_per_second, " B/s"));
    cables_[fault.target]->SetRate(fault.bytes_per_second);
  } else if (fault.kind == Fault::Kind::kSmallOnly) {
    SetSmallOnly(fault.target, true);
  } else if (fault.kind == Fault::Kind::kSwallow) {
    Log(absl::StrCat("cable c", fault.target, " swallows what comes"));
    cables_[fault.target]->SetSwallows(true);
  } else if (fault.kind == Fault::Kind::kFlip) {
    Log(absl::StrCat("cable c", fault.target, " flips bits, in ", fault.flipped_of_million,
                     " of a million messages"));
    cables_[fault.target]->SetFlips(fault.flipped_of_million);
  } else {
    if (held_[fault.target]++ > 0) return (void)--held_[fault.target];
    TakeDown(fault);
  }
  if (fault.duration_ns == kNever) return;
  schedule_.After(fault.duration_ns, [this, &fault] { End(fault); });
}

void World::TakeDown(const Fault& fault) {
  Host& host = *hosts_[fault.target];
  if (fault.kind == Fault::Kind::kStop) {
    Log(absl::StrCat(host.name(), " is stopped (SIGSTOP)"));
    ledger_.SetHost(fault.target, false);
    return host.Stop();
  }
  Log(absl::StrCat(host.name(), fault.kind == Fault::Kind::kPowerOff ? " loses its power"
                                                                     : "'s daemon is killed"));
  ledger_.OnHostOff(fault.target);
  for (const auto& job : jobs_) job->OnHostEnded(host);
  if (fault.kind == Fault::Kind::kPowerOff) {
    host.PowerOff();
  } else {
    host.Kill();
  }
}

void World::End(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kPull:
      if (--pulled_[fault.target] == 0) SetCable(fault.target, true);
      return;
    case Fault::Kind::kRate:
      return cables_[fault.target]->SetRate(
          scenario_.cables[fault.target].options.bytes_per_second);
    case Fault::Kind::kSmallOnly: return SetSmallOnly(fault.target, false);
    case Fault::Kind::kSwallow: return cables_[fault.target]->SetSwallows(false);
    case Fault::Kind::kFlip: return cables_[fault.target]->SetFlips(0);
    default: return BringBack(fault);
  }
}

void World::BringBack(const Fault& fault) {
  Host& host = *hosts_[fault.target];
  --held_[fault.target];
  ledger_.SetHost(fault.target, true);
  if (fault.kind == Fault::Kind::kStop) {
    Log(absl::StrCat(host.name(), " goes on (SIGCONT)"));
    return host.Continue();
  }
  if (fault.kind != Fault::Kind::kReplace) {
    Log(absl::StrCat(host.name(), " is started again"));
    return host.PowerOn();
  }
  const NodeId id = MakeId(random_);
  names_[id] = absl::StrCat(host.name(), "*");
  Log(absl::StrCat(host.name(), " is started again as another node"));
  host.PowerOn(&id);
}

void World::OnCompleted(Host& host, const collective::Action& action) {
  schedule_.Note(Mix(action.session) ^ action.ticket);
  const auto found = sessions_.find({host.index(), action.session});
  if (found == sessions_.end()) return Complain("an unknown session is answered");
  // Through the queue in shared memory, a moment later.
  Client& client = *found->second;
  auto copy = std::make_shared<collective::Action>();
  copy->ticket = action.ticket;
  copy->failure = action.failure;
  copy->group_failed = action.group_failed;
  schedule_.After(random_.Below(2 * kMicrosecond), [&client, copy, life = host.life(), &host] {
    if (life == host.life()) client.OnCompleted(*copy);
  });
}

void World::OnSessionReleased(Host& host, collective::SessionId session) {
  schedule_.After(10 * kMicrosecond,
                  [client = sessions_.at({host.index(), session})] { client->OnReleased(); });
}

// The interfaces of a cable are named after it: "rail en3a - en3b is up".
void World::OnEvent(Host& host, const record::LoggedEvent& event) {
  if (log_) Log(absl::StrCat(host.name(), ": ", event.object, " ", event.text));
  schedule_.Note(Mix(host.index()) ^ event.kind.size());
  if (event.kind == "node_up" || event.kind == "node_lost" || event.kind == "link_waits") {
    return Report(host, event.kind.c_str(), {});
  }
  constexpr std::string_view kRail = "rail en";
  const std::string_view text = event.text;
  const bool of_rail = event.kind == "rail_up" || event.kind == "rail_down";
  if (!of_rail || !text.starts_with(kRail)) return;  // Or a route through other hosts.
  const std::string_view name = text.substr(kRail.size());
  Report(host, event.kind.c_str(),
         std::string(name.substr(0, name.find_first_not_of("0123456789"))));
}

void World::Report(const Host& host, const char* kind, const std::string& cable) {
  if (teller_ && host.index() == 0) teller_(kind, cable);
}

void World::OnViolation(Host& host, const NodeId& node, const std::string& what) {
  Complain(absl::StrCat(host.name(), ": node ", NameOf(node), " broke the protocol: ", what));
}

void World::OnHello(const Port& port, const wire::DiscoveryHello& hello) {
  schedule_.Note(Mix(hello.sequence) ^ hello.heard_count);
  recorded_.push_back({&port, hello});
  if (recorded_.size() > kRecordedMax) recorded_.pop_front();
  if (!random_.Chance(kHellosLost)) Deliver(port, hello);
  if (random_.Chance(kHellosPlayedBack)) PlayBack();
}

void World::Deliver(const Port& from, const wire::DiscoveryHello& hello) {
  Cable& cable = *from.cable;
  if (!cable.up()) return;
  const std::uint64_t late = cable.options().latency_ns + random_.Below(kMillisecond);
  schedule_.After(late, [&cable, &from, hello] {
    if (!cable.up()) return;
    from.peer->OnDatagram(*from.peer->PortOf(cable, 1 - from.side), from.address, hello);
  });
}

// A recording arrives at any interface, perhaps at the sender, with its sender's address. An answer
// arrives only at its own cable; otherwise the two cables would be joined, as by a switch.
void World::PlayBack() {
  const Recorded& recorded = recorded_[random_.Below(recorded_.size())];
  Host& host = *hosts_[random_.Below(hosts_.size())];
  if (host.ports().empty()) return;
  const Port& port = host.ports()[random_.Below(host.ports().size())];
  const std::span heard(recorded.hello.heard, recorded.hello.heard_count);
  const bool answers = std::any_of(heard.begin(), heard.end(), [&host](const wire::HeardNode& one) {
    return one.node_id == host.id().bytes;
  });
  if (answers && port.cable != recorded.port->cable) return;
  host.OnDatagram(port, recorded.port->address, recorded.hello);
}

// Healed and quiet: hosts on a cable have found each other over it, and have a rail there unless
// the link already has its maximum.
void World::CheckCables(Host& host) {
  if (!host.discovers()) return;
  const auto has_rail = [&host](const Port& port) {
    return host.daemon()->links().HasRailOver(port.peer->id(),
                                              {port.interface, port.peer_interface});
  };
  std::map<const Host*, std::size_t> rails;
  for (const Port& port : host.ports()) rails[port.peer] += has_rail(port) ? 1 : 0;
  for (const Port& port : host.ports()) {
    if (port.peer->state() != Host::State::kRunning) continue;
    const bool found = host.daemon()->node().discovery()->Knows(port.peer->id(), port.interface,
                                                                port.peer_interface);
    const bool linked = has_rail(port) || rails[port.peer] >= link::Link::kRailsMax;
    if (found && linked) continue;
    Complain(absl::StrCat(host.name(), found ? " has no rail to " : " has not found ",
                          port.peer->name(), " over ", port.cable->options().name));
  }
}

std::string World::NameOf(const NodeId& node) const {
  const auto found = names_.find(node);
  return found == names_.end() ? node.ToString() : found->second;
}

void World::Log(const std::string& line) {
  if (!log_) return;
  log_(absl::StrFormat("%12.6f  %s", static_cast<double>(schedule_.now_ns()) / 1e9, line));
}

void World::Complain(const std::string& what) {
  if (!outcome_.complaints.empty() && what == last_complaint_) return;
  last_complaint_ = what;
  const std::string line =
      absl::StrFormat("at %.6f s: %s", static_cast<double>(schedule_.now_ns()) / 1e9, what);
  Log(absl::StrCat("WRONG ", what));
  if (outcome_.complaints.size() < kComplaintsMax) outcome_.complaints.push_back(line);
}

collective::SessionId World::NewSession(Host& host, Client& client) {
  const collective::SessionId session = next_session_++;
  sessions_[{host.index(), session}] = &client;
  return session;
}

bool World::AllDone() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->done(); });
}

void World::Heal() {
  healed_ = true;
  for (std::size_t i = 0; i < cables_.size(); ++i) {
    SetCable(i, true);
    cables_[i]->SetFlips(0);
    cables_[i]->SetSwallows(false);
    SetSmallOnly(i, false);
  }
  for (const auto& host : hosts_) {
    if (host->state() != Host::State::kStopped) continue;
    ledger_.SetHost(host->index(), true);
    host->Continue();
  }
  for (const auto& job : jobs_) {
    if (job->started()) job->EndHalted();
  }
}

void World::Watch() {
  for (const auto& host : hosts_) {
    if (host->state() != Host::State::kOff) CheckBounds(*host);
  }
}

void World::CheckBounds(Host& host) {
  const link::FabricOptions& limits = scenario_.daemon.node.fabric;
  host.daemon()->links().ForEach([&](const link::Link& link) {
    const auto expect_within = [&](const char* what, std::uint64_t value, std::uint64_t bound) {
      if (value <= bound) return;
      Complain(absl::StrCat(host.name(), ": ", value, " ", what, " ", link.peer().name,
                            ", at most ", bound, " may"));
    };
    expect_within("frames wait for", link.channel().queued(), limits.queued_frames_max);
    expect_within("copied bytes wait for", link.channel().copied_bytes(), limits.copied_bytes_max);
    expect_within("bytes are kept for what is missing before them from",
                  link.arrivals().kept_bytes(), wire::kEarlyBytesMax);
  });
}

void World::CheckNothingIsLeft(Host& host) {
  Daemon& daemon = *host.daemon();
  const auto expect_none = [&](const char* what, std::uint64_t count) {
    if (count > 0) Complain(absl::StrCat(host.name(), ": ", count, " ", what, " are left"));
  };
  std::size_t groups = 0;
  const node::Node& node = daemon.node();
  node.collectives().ForEach([&groups](const collective::Group&) { ++groups; });
  expect_none("groups", groups);
  expect_none("bytes of scratch memory", daemon.scratch().used_bytes());
  expect_none("sessions", node.jobs().session_count());
  expect_none("sessions whose memory is not released", node.jobs().sessions_to_release());
  expect_none("worlds that form", node.jobs().forming_count());
  expect_none("ranks that wait for their job", node.jobs().rendezvous().AllWaiting().size());
  expect_none("groups that shrink", node.jobs().shrinking().entry_count());
  daemon.links().ForEach([&](const link::Link& link) {
    expect_none("posted receives", link.posted_receives());
    const auto earlier = oldest_.find({host.index(), link.peer().id});
    const bool stuck = link.state() == link::Link::State::kUp && earlier != oldest_.end() &&
                       earlier->second == link.channel().oldest();
    expect_none("frames that are never acknowledged", stuck ? link.channel().queued() : 0);
  });
}

void World::NoteQueues() {
  for (const auto& host : hosts_) {
    if (host->state() == Host::State::kOff) continue;
    host->daemon()->links().ForEach([&](const link::Link& link) {
      oldest_[{host->index(), link.peer().id}] = link.channel().oldest();
    });
  }
}

Outcome World::Run() {
  std::uint64_t next_watch_ns = schedule_.now_ns();
  const auto run_until = [&](std::uint64_t end_ns, bool until_done) {
    const auto is_done = [this] {
      return AllDone() && schedule_.now_ns() >= scenario_.runs_until_ns;
    };
    while (!(until_done && is_done()) && schedule_.RunOne(end_ns)) {
      if (outcome_.complaints.size() >= kComplaintsMax) return;
      if (schedule_.now_ns() < next_watch_ns) continue;
      Watch();
      next_watch_ns = schedule_.now_ns() + kWatchNs;
    }
  };
  run_until(scenario_.end_ns, true);
  for (const auto& job : jobs_) {
    if (!job->done()) Complain(absl::StrCat("has not ended: ", job->Describe()));
  }
  if (outcome_.complaints.empty()) {
    Heal();
    run_until(schedule_.now_ns() + kQuietNs, false);
    NoteQueues();
    run_until(schedule_.now_ns() + kAcknowledgesNs, false);
    for (const auto& host : hosts_) {
      if (host->state() != Host::State::kRunning) continue;
      CheckNothingIsLeft(*host);
      CheckCables(*host);
    }
    questions_->ExpectNoneOpen();
    if (scenario_.faults.empty() && scenario_.daemon.blind_of_thousand == 0)
      questions_->ExpectMostWhole();
  }
  outcome_.events = schedule_.events();
  outcome_.digest = schedule_.digest();
  outcome_.virtual_ns = schedule_.now_ns();
  outcome_.questions = questions_->answered();
  for (const auto& job : jobs_) {
    ++outcome_.jobs;
    outcome_.shrinks += job->groups_shrunk_to();
    outcome_.calls += job->finished_calls();
    if (job->failed()) ++outcome_.jobs_failed;
  }
  return std::move(outcome_);
}

}  // namespace mlxcomm::sim
