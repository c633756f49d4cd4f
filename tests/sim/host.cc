#include "tests/sim/host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/hello.h"

namespace mlxcomm::sim {
namespace {

constexpr std::uint16_t kTcpPort = 7470;
constexpr std::size_t kUnreadMax = 32;
constexpr std::uint64_t kConnectPatience = 400 * kMillisecond;  // Same as TcpFabric's.

}  // namespace

Host::Host(std::size_t index, Schedule& schedule, DaemonOptions options, RailOptions rails,
           HostListener& listener, Random random)
    : index_(index),
      schedule_(schedule),
      options_(std::move(options)),
      rail_options_(rails),
      listener_(listener),
      random_(random) {}

void Host::PowerOn(const NodeId* identity) {
  if (identity != nullptr) options_.node.fabric.self.id = *identity;
  state_ = State::kRunning;
  ++life_;
  options_.node.fabric.self.incarnation = random_.Next() | 1;
  options_.node.fabric.random = [random = std::make_shared<Random>(random_.Fork("fabric"))] {
    return random->Next() | 1;
  };
  daemon_ = std::make_unique<Daemon>(schedule_, options_, *this, random_.Fork("daemon"));
  for (const Connected& gone : std::exchange(vanished_, {})) {
    if (const auto connection = gone.connection.lock()) connection->Refuse(gone.side);
  }
  for (Port& port : ports_) {
    port.pause_ns = options_.node.fabric.reconnect_delay_min_ns;
    if (discovers()) {
      port.dials = false;
      if (port.cable->up() || !port.cable->options().carrier_reports) SetInterface(port, true);
    }
    DialSoon(port, random_.Below(kMillisecond));
  }
}

// What Loop does with its interfaces; the daemon learns of it in its next turn.
void Host::SetInterface(const Port& port, bool up) {
  if (!discovers()) return;
  daemon_->Post(
      [up, facts = discovery::Discovery::Interface{port.interface, port.address, kTcpPort}](
          node::Node& node) { up ? node.OnInterfaceUp(facts) : node.OnInterfaceDown(facts.name); });
}

void Host::OnDatagram(const Port& port, const wire::AddressBytes& from,
                      const wire::DiscoveryHello& hello) {
  if (state_ == State::kOff) return;
  if (state_ == State::kStopped) {
    if (unread_.size() < kUnreadMax) unread_.push_back({&port, from, hello});
    return;
  }
  daemon_->Post([interface = port.interface, from, hello](node::Node& node) {
    node.OnHello(interface, from, {reinterpret_cast<const std::uint8_t*>(&hello), sizeof hello});
  });
}

void Host::OnHello(const std::string& interface, const wire::DiscoveryHello& hello) {
  for (const Port& port : ports_) {
    if (port.interface == interface) return listener_.OnHello(port, hello);
  }
  listener_.Complain(
      absl::StrCat(name(), " says hello on ", interface, ", which it does not have"));
}

// It may only dial the other end of one of its cables, whatever it has received.
Port* Host::PortDialedBy(const std::string& address) {
  for (Port& port : ports_) {
    if (discovery::AddressText(port.peer_address, port.interface, kTcpPort) == address)
      return &port;
  }
  listener_.Complain(absl::StrCat(name(), " dials ", address, ", where nobody listens"));
  return nullptr;
}

void Host::OnDial(const std::string& address) {
  Port* const port = PortDialedBy(address);
  if (port == nullptr) return;
  port->dials = true;
  port->pause_ns = options_.node.fabric.reconnect_delay_min_ns;
  DialSoon(*port, random_.Below(kMillisecond));
}

void Host::OnStopDialing(const std::string& address) {
  Port* const port = PortDialedBy(address);
  if (port == nullptr) return;
  port->dials = false;
  port->due = false;
  ++port->attempt;
}

void Host::Kill() { EndDaemon(/*tells=*/true); }
void Host::PowerOff() { EndDaemon(/*tells=*/false); }

void Host::EndDaemon(bool reports) {
  if (state_ == State::kOff) return;
  state_ = State::kOff;
  ++life_;
  for (const Connected& connected : std::exchange(connections_, {})) {
    const auto connection = connected.connection.lock();
    if (connection == nullptr) continue;
    if (reports) {
      connection->Close(connected.side);
    } else {
      connection->Vanish(connected.side);
      vanished_.push_back(connected);
    }
  }
  for (Port& port : ports_) {
    port.dialing = false;
    port.unanswered = false;
    port.due = false;
    ++port.attempt;
  }
  unread_.clear();
  daemon_.reset();
}

void Host::Stop() {
  if (state_ != State::kRunning) return;
  state_ = State::kStopped;
  daemon_->SetStopped(true);
  for (const Connected& connected : connections_) {
    if (const auto connection = connected.connection.lock()) {
      connection->SetStopped(connected.side, true);
    }
  }
}

void Host::Continue() {
  if (state_ != State::kStopped) return;
  state_ = State::kRunning;
  daemon_->SetStopped(false);
  for (const Connected& connected : connections_) {
    if (const auto connection = connected.connection.lock()) {
      connection->SetStopped(connected.side, false);
    }
  }
  for (Port& port : ports_) DialSoon(port, 0);
  for (const Datagram& one : std::exchange(unread_, {})) OnDatagram(*one.port, one.from, one.hello);
}

void Host::OnCarrier(const Cable& cable, bool up) {
  if (state_ != State::kRunning) return;
  for (Port& port : ports_) {
    if (port.cable != &cable) continue;
    SetInterface(port, up);
    if (!up) {
      daemon_->node().AdvanceTo(schedule_.now_ns());
      daemon_->links().OnInterfaceDown(port.interface, schedule_.now_ns());
      daemon_->Wake();
    } else {
      daemon_->links().OnInterfaceUp(schedule_.now_ns());
      port.pause_ns = options_.node.fabric.reconnect_delay_min_ns;
      ++port.attempt;
      port.due = false;
      if (std::exchange(port.unanswered, false)) port.dialing = false;  // Same as TcpFabric.
      DialSoon(port, 0);
    }
  }
}

Port* Host::PortOf(const Cable& cable, int side) {
  for (Port& port : ports_) {
    if (port.cable == &cable && port.side == side) return &port;
  }
  return nullptr;
}

void Host::AddConnection(const std::shared_ptr<Connection>& connection, int side) {
  std::erase_if(connections_, [](const Connected& old) { return old.connection.expired(); });
  if (state_ == State::kStopped) connection->SetStopped(side, true);
  connections_.push_back({connection, side});
}

void Host::DialSoon(Port& port, std::uint64_t delay_ns) {
  if (!port.dials || port.dialing || port.due) return;
  port.due = true;
  schedule_.After(delay_ns, [this, &port, attempt = port.attempt, life = life_] {
    if (life != life_ || attempt != port.attempt) return;
    port.due = false;
    if (state_ == State::kRunning) Dial(port);
  });
}

void Host::Dial(Port& port) {
  if (port.dialing ||
      daemon_->links().HasRailOver(port.peer->id(), {port.interface, port.peer_interface})) {
    return;
  }
  port.dialing = true;
  ++port.dials_begun;
  Connect(port, kConnectPatience, schedule_.now_ns() + options_.node.fabric.greeting_timeout_ns);
}

// A host that is on answers, or its system refuses; a host that is off sends nothing.
void Host::Connect(Port& port, std::uint64_t patience_ns, std::uint64_t deadline_ns) {
  const bool refuses = port.cable->up() && port.peer->state() == State::kOff;
  if (port.cable->up() && !refuses) {
    port.unanswered = false;
    return std::make_shared<Hello>(schedule_, *this, port, random_.Fork("hello"))->Begin();
  }
  port.unanswered = !refuses;
  const std::uint64_t wait_ns = refuses ? 2 * port.cable->options().latency_ns
                                        : std::min(patience_ns, deadline_ns - schedule_.now_ns());
  schedule_.After(wait_ns, [=, this, &port, life = life_, dial = port.dials_begun] {
    if (life != life_ || !port.dialing || dial != port.dials_begun) return;
    const bool tries_again = state_ == State::kRunning && schedule_.now_ns() < deadline_ns;
    if (refuses || !tries_again) return OnDialEnded(port, false, refuses);
    Connect(port, 2 * patience_ns, deadline_ns);
  });
}

void Host::OnDialEnded(Port& port, bool joined, bool refused) {
  port.dialing = false;
  port.unanswered = false;
  if (refused && daemon_ != nullptr) {
    daemon_->node().AdvanceTo(schedule_.now_ns());
    daemon_->links().OnGone(port.peer->id(), "its daemon has ended");
    daemon_->Wake();
  }
  const bool linked =
      daemon_ != nullptr &&
      daemon_->links().HasRailOver(port.peer->id(), {port.interface, port.peer_interface});
  if (joined && linked) {
    port.pause_ns = options_.node.fabric.reconnect_delay_min_ns;
    return;
  }
  const std::uint64_t pause = port.pause_ns;
  port.pause_ns = std::min(2 * pause, options_.node.fabric.reconnect_delay_max_ns);
  DialSoon(port, pause + random_.Below(pause / 4 + 1));
}

void Host::OnCompleted(const collective::Action& action) { listener_.OnCompleted(*this, action); }

void Host::OnSessionReleased(collective::SessionId session) {
  listener_.OnSessionReleased(*this, session);
}

void Host::OnRailGone() {
  for (Port& port : ports_) DialSoon(port, random_.Below(kMillisecond));
}

void Host::OnViolation(const NodeId& node, const std::string& what) {
  listener_.OnViolation(*this, node, what);
}

}  // namespace mlxcomm::sim
