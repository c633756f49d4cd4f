// A host: a daemon with its clients' memory, its ends of cables, and its power.
//
//   off ──PowerOn──▶ running ──Stop──▶ stopped ──Continue──▶ running
//    ▲                  └──Kill (the process) / PowerOff (everything)──┐
//    └─────────────────────────────────────────────────────────────────┘
//
// It dials as TcpFabric does: one connection for each path, again after growing pauses, and at once
// when a rail has gone or the interface is back. The cables over which it dials are given, or
// chosen by its daemon's discovery: its interfaces then come and go with the cables' carrier, and
// hellos cross the cables.
//
// Owner: World. Thread: one. Memory: the daemon's; one entry for each end of a cable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/cable.h"
#include "tests/sim/connection.h"
#include "tests/sim/daemon.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

class Host;
class Hello;

struct Port {
  Cable* cable = nullptr;
  int side = 0;
  Host* peer = nullptr;
  bool dials = false;
  std::string interface;  // Ours; the peer's is its port's.
  std::string peer_interface;
  wire::AddressBytes address{};  // Link-local.
  wire::AddressBytes peer_address{};
  std::uint64_t pause_ns = 0;
  bool dialing = false;
  bool unanswered = false;  // It dials a cable that carries nothing.
  std::uint64_t dials_begun = 0;
  bool due = false;           // An attempt is scheduled.
  std::uint64_t attempt = 0;  // Invalidates a scheduled one when changed.
};

// Receives what clients and the checks need to know.
class HostListener {
 public:
  virtual ~HostListener() = default;
  virtual void OnCompleted(Host& host, const collective::Action& action) = 0;
  virtual void OnSessionReleased(Host& host, collective::SessionId session) = 0;
  // An event of its daemon for people.
  virtual void OnEvent(Host& host, const record::LoggedEvent& event) = 0;
  virtual void OnViolation(Host& host, const NodeId& node, const std::string& what) = 0;
  // It sends a hello over the port's cable.
  virtual void OnHello(const Port& port, const wire::DiscoveryHello& hello) = 0;
  virtual void Complain(const std::string& what) = 0;
  virtual void Log(const std::string& line) = 0;
};

class Host final : public DaemonListener {
 public:
  enum class State : std::uint8_t { kOff, kRunning, kStopped };

  Host(std::size_t index, Schedule& schedule, DaemonOptions options, RailOptions rails,
       HostListener& listener, Random random);

  std::size_t index() const { return index_; }
  const std::string& name() const { return options_.node.fabric.self.name; }
  const NodeId& id() const { return options_.node.fabric.self.id; }
  State state() const { return state_; }
  std::uint64_t incarnation() const { return options_.node.fabric.self.incarnation; }
  Daemon* daemon() { return daemon_.get(); }
  // The number of the daemon's life: events that arrive late from an earlier life are ignored.
  std::uint64_t life() const { return life_; }
  void AddPort(Port port) { ports_.push_back(std::move(port)); }
  std::vector<Port>& ports() { return ports_; }
  const RailOptions& rail_options() const { return rail_options_; }
  Random& random() { return random_; }

  // `identity`: returns as a new node that no other node knows, at the same cables.
  void PowerOn(const NodeId* identity = nullptr);
  void Kill();      // The system resets its connections.
  void PowerOff();  // No other host is notified.
  void Stop();
  void Continue();

  bool discovers() const { return options_.node.hello_keys.has_value(); }
  // A datagram has arrived at the port, from the address that it claims.
  void OnDatagram(const Port& port, const wire::AddressBytes& from,
                  const wire::DiscoveryHello& hello);

  // The port's cable has lost or regained its carrier, and this host notices.
  void OnCarrier(const Cable& cable, bool up);
  // From Hello.
  Port* PortOf(const Cable& cable, int side);
  void AddConnection(const std::shared_ptr<Connection>& connection, int side);
  void OnDialEnded(Port& port, bool joined, bool refused);

 private:
  struct Connected {
    std::weak_ptr<Connection> connection;
    int side = 0;
  };

  // DaemonListener
  void OnCompleted(const collective::Action& action) override;
  void OnSessionReleased(collective::SessionId session) override;
  void OnRailGone() override;
  void OnHello(const std::string& interface, const wire::DiscoveryHello& hello) override;
  void OnDial(const std::string& address) override;
  void OnStopDialing(const std::string& address) override;
  void OnEvent(const record::LoggedEvent& event) override { listener_.OnEvent(*this, event); }
  void OnViolation(const NodeId& node, const std::string& what) override;

  Port* PortDialedBy(const std::string& address);
  void SetInterface(const Port& port, bool up);
  void EndDaemon(bool reports);
  void DialSoon(Port& port, std::uint64_t delay_ns);
  void Dial(Port& port);
  void Connect(Port& port, std::uint64_t patience_ns, std::uint64_t deadline_ns);

  std::size_t index_;
  Schedule& schedule_;
  DaemonOptions options_;
  RailOptions rail_options_;
  HostListener& listener_;
  Random random_;
  State state_ = State::kOff;
  std::uint64_t life_ = 0;
  std::vector<Port> ports_;
  std::vector<Connected> connections_;
  std::vector<Connected> vanished_;
  // Datagrams that arrived since it was stopped; the system's buffer is small.
  struct Datagram {
    const Port* port = nullptr;
    wire::AddressBytes from{};
    wire::DiscoveryHello hello{};
  };
  std::vector<Datagram> unread_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace mlxcomm::sim
