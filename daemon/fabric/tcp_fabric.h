// The one implementation of Fabric: listens, dials, and holds a Link for each node
// that has ever proved the key, or was reached through others (router.h).
//
// One connection of several. A dialer introduces itself only while it has no other
// connection to that node; the acceptor keeps the rail that it has until then, for the
// introduction says that it is dead on the other side. When two nodes dial each other at
// once, the connection wins that the smaller node id has dialed: from its own
// introduction on, that node refuses the other's. A circuit is no connection: a dialer
// gives it up before it introduces itself, an acceptor when it has read the introduction.
//
//   dialer:   prove ─▶ (has a rail or dials it already? close) ─▶ introduce ─▶ rail
//   acceptor: prove ─▶ (introduced itself, and is smaller? refuse) ─▶ read the
//             introduction ─▶ (the same again, or a rail has come since the proof, of
//             which it may not have known? refuse) ─▶ old rail goes ─▶ introduce ─▶ rail
//
// Owner: Daemon, as Fabric. Thread: engine. Memory: one Link a node, at most kLinksMax;
// one coroutine a configured address; at most strangers_max unproved connections.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "absl/container/flat_hash_map.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/handshake.h"
#include "daemon/fabric/link.h"
#include "daemon/fabric/router.h"
#include "daemon/platform/wakeup.h"

namespace mlxcomm::fabric {

class TcpFabric final : public Fabric, private RouterPort {
 public:
  TcpFabric(asio::io_context& io, FabricOptions options, FabricListener& listener);
  ~TcpFabric() override;
  absl::Status Start();

  bool IsReachable(const NodeId& node) const override;
  absl::Status Send(const NodeId& node, const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie) override;
  absl::Status PostReceive(const NodeId& node, const PostedReceive& receive) override;
  void Withdraw(const NodeId& node, const OperationKey& key) override;
  void Cancel(const NodeId& node, const OperationKey& key) override;
  std::size_t Poll() override;
  bool PrepareToSleep() override;
  void WakeUp() override;
  std::vector<LinkSnapshot> Snapshot() const override;
  std::uint64_t strangers_refused() const override { return strangers_refused_; }
  std::vector<std::string> listening() const override;
  void Stop() override;

 private:
  using Tcp = asio::ip::tcp;
  static constexpr std::size_t kLinksMax = 4096;
  // One configured address.
  struct Dialer {
    Dialer(asio::io_context& io, std::string to) : address(std::move(to)), pause(io) {}
    std::string address;
    asio::steady_timer pause;
    NodeId peer;            // Once known.
    bool known = false;
    bool waits_for_rail_to_go = false;
    std::string detail;     // Why it is not connected.
  };

  asio::awaitable<void> AcceptLoop(Tcp::acceptor& acceptor);
  asio::awaitable<void> Accept(Tcp::socket socket);
  asio::awaitable<void> DialLoop(Dialer& dialer);
  asio::awaitable<absl::Status> Dial(Dialer& dialer);
  asio::awaitable<absl::Status> Connect(Tcp::socket& socket, const std::string& address);
  asio::awaitable<absl::Status> JoinAsDialer(Tcp::socket& socket, const Proved& proved);
  asio::awaitable<absl::Status> JoinAsAcceptor(Tcp::socket& socket, const Proved& proved,
                                               std::uint64_t connections_added);
  absl::Status AddRail(Tcp::socket& socket, const Proved& proved,
                       const wire::Introduction& theirs, const Link::Standing& told);
  bool PrefersOwnDial(const NodeId& peer) const;
  asio::awaitable<void> TickLoop();
  void WatchBell();
  void OnRailGone();
  void ObserveNeighbours();
  std::uint64_t ConnectionsAdded(const NodeId& peer) const;
  void SendTheRest();
  // RouterPort
  Link* LinkTo(const NodeId& peer) override;
  Link* FindLink(const NodeId& peer) const override;
  bool IsJoining(const NodeId& peer) const override;
  wire::Introduction OwnIntroduction(const Link::Standing& standing) const override;
  void OnDeadlineChanged() override { tick_.cancel(); }
  void RefuseStranger(const std::string& from, const std::string& why);

  asio::io_context& io_;
  FabricOptions options_;
  FabricListener& listener_;
  platform::Wakeup bell_;
  asio::posix::stream_descriptor bell_watch_;
  std::vector<std::unique_ptr<Tcp::acceptor>> acceptors_;
  std::vector<std::unique_ptr<Dialer>> dialers_;
  std::vector<NodeId> joining_as_dialer_;    // From our introduction to the rail.
  std::vector<NodeId> joining_as_acceptor_;
  Router router_;  // The links' rails may be its circuits, so it goes after them.
  absl::flat_hash_map<NodeId, std::unique_ptr<Link>> links_;
  std::vector<Link*> polled_;
  // For each of them, which connection the router knows of; 0: none.
  std::vector<std::uint64_t> observed_;
  asio::steady_timer tick_;
  std::uint32_t strangers_ = 0;
  std::uint64_t strangers_refused_ = 0;
  std::uint64_t refusals_logged_in_second_ = 0;
  std::uint64_t refusal_second_ = 0;
  bool stopped_ = false;
};

}  // namespace mlxcomm::fabric
