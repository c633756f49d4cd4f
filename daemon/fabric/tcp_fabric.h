// The sockets of a node's links. Listens, dials, proves the key, turns proved connections into
// rails, and watches the machine's interfaces (README.md, TcpFabric).
//
//   dialer:   prove ─▶ TLS ─▶ Links::BeginAsDialer ─▶ introduce ─▶ Links::Finish
//   acceptor: prove, Judge ─▶ verdict ─▶ TLS ─▶ read ─▶ BeginAsAcceptor ─▶ introduce ─▶ Finish
//
// Each path has one connection: two cables between two nodes are two addresses and two rails.
// Owner: Daemon. Thread: the loop's. Memory: one coroutine for each address; at most strangers_max
// unproved connections.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "daemon/fabric/handshake.h"
#include "daemon/fabric/links.h"
#include "daemon/fabric/side_rails.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/platform/interface_watch.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rail/client_memory.h"
#include "daemon/rail/tcp/socket_watch.h"

namespace mlxcomm::fabric {

class TcpFabric final {
 public:
  // Starts listening and dialing once the io_context runs. Destroy in this order: Stop(), the links
  // (their rails use this object), this object. `side_rails`, called once, makes the other
  // transports' rails. Errors: a listen address that cannot be parsed or bound, peers without a
  // key.
  static absl::StatusOr<std::unique_ptr<TcpFabric>> Create(asio::io_context& io,
                                                           link::FabricOptions options,
                                                           Links& links,
                                                           const SideRailsMaker& side_rails = {});
  TcpFabric(asio::io_context& io, link::FabricOptions options, Links& links,
            const SideRailsMaker& side_rails = {});
  // The io_context must not run after it: the fabric's coroutines are suspended there.
  ~TcpFabric();

  // Registers memory, so that rails may send from it without a copy. A rail that still reads it
  // keeps its owner.
  void AddMemory(const rail::ClientMemory& memory) {
    for (const auto& side : side_rails_) side->AddMemory(memory);
  }
  void RemoveMemory(const std::byte* data) {
    for (const auto& side : side_rails_) side->RemoveMemory(data);
  }

  // Passes rail events to the links' listener and returns their number, and wakes dialers whose
  // rail has gone. Called in each turn.
  std::size_t Poll();
  // Like RingConsumer: announces that the loop will sleep, so that rails wake it; false: something
  // has arrived.
  bool PrepareToSleep();
  void WakeUp() { links_.WakeUp(); }

  // Addresses that come and go at run time. They need the key. Removing one ends no rail.
  // AddListener takes "[fe80::1%en2]:7470" (port 0: any) and returns the port.
  absl::StatusOr<std::uint16_t> AddListener(const std::string& address);
  void RemoveListener(const std::string& address);  // Takes what AddListener took.
  absl::Status AddPeer(const std::string& address);
  void RemovePeer(const std::string& address);

  // Adds the links, addresses that are being dialed, and the other transports' state.
  void Describe(v1::NodeStatus& status) const;
  std::uint64_t strangers_refused() const { return strangers_refused_; }
  std::uint64_t stranger_refused_ns() const { return stranger_refused_ns_; }
  // For example "127.0.0.1:40123", with the real port.
  std::vector<std::string> listening() const;

  // New connections are proved with these keys; others are proved again, or end within
  // new_proof_timeout.
  void SetKeys(const ClusterKeys& keys);
  // The current key's id first; empty if there are no peers.
  std::vector<std::string> key_ids() const;

  // Sends what is queued, within a second, then closes the connections. No callbacks follow.
  // Idempotent.
  void Stop();

 private:
  using Tcp = asio::ip::tcp;
  struct Dialer {
    Dialer(asio::io_context& io, std::string to) : address(std::move(to)), pause(io) {}
    std::string address;
    asio::steady_timer pause;
    NodeId peer;  // Set once `known`, like the path.
    rail::RailPath path;
    bool known = false;
    enum class Waits : std::uint8_t { kNot, kForRailToGo, kForAnswer, kInBackOff };
    Waits waits = Waits::kNot;
    std::uint64_t delay_ns = 0;
    std::uint64_t incarnation = 0;  // Identifies the daemon that it was connected to last.
    std::string detail;             // Why it is not connected.
    LinkReason reason = LinkReason::kNone;
    bool added = false;    // Made by AddPeer.
    bool removed = false;  // Its loop ends and deletes the dialer.
  };
  struct Listener {
    std::string address;
    Tcp::acceptor acceptor;
  };

  using RailKey = std::pair<NodeId, rail::RailPath>;
  // A connection that has not proved the key yet; lives in its Accept.
  struct Stranger {
    Tcp::socket& socket;
    asio::ip::address address;
    bool gave_way = false;
  };

  void Activate();
  absl::Status Listen(const std::string& address);
  asio::awaitable<void> AcceptLoop(Listener& listener);
  asio::awaitable<void> Accept(Tcp::socket socket);
  void MakePlaceForStranger();
  asio::awaitable<void> DialLoop(Dialer& dialer);
  static link::NodeClaim ClaimOf(const Dialer& dialer) {
    return dialer.added ? link::NodeClaim::kFound : link::NodeClaim::kNamed;
  }
  void UpdateClaims(const NodeId& node);
  asio::awaitable<void> BackOff(Dialer& dialer);
  asio::awaitable<absl::Status> Dial(Dialer& dialer);
  asio::awaitable<absl::StatusOr<std::vector<Tcp::endpoint>>> Resolve(Dialer& dialer);
  asio::awaitable<absl::Status> Connect(Tcp::socket& socket, Dialer& dialer);
  using Stream = std::unique_ptr<rail::ByteStream>;
  asio::awaitable<absl::Status> JoinAsDialer(Tcp::socket& socket, Stream stream,
                                             const Proved& proved, const Links::Origin& to);
  asio::awaitable<absl::Status> JoinAsAcceptor(Tcp::socket& socket, Stream stream,
                                               const Proved& proved, Links::RailMark mark,
                                               const wire::Introduction& theirs,
                                               const Links::Origin& from);
  absl::Status AddRail(Tcp::socket& socket, Stream stream, const Proved& proved,
                       const Links::Join& join, const wire::Introduction& theirs);
  bool HasRail(const Dialer& dialer) const {
    return dialer.known && links_.HasRailOver(dialer.peer, dialer.path);
  }
  // True if it has a rail that need not be proved again.
  bool IsLinked(const Dialer& dialer) const {
    return HasRail(dialer) && !IsOutdated(dialer.peer, dialer.path);
  }
  // tcp_fabric_keys.cc
  void CacheKeyIds();
  bool IsAccepted(const ClusterKeyId& key) const;
  bool IsOutdated(const NodeId& peer, const rail::RailPath& path) const {
    return outdated_.contains({peer, path});
  }
  void CheckProofs(std::uint64_t now_ns);
  asio::awaitable<void> TickLoop();
  bool NoticeRailsGone();
  void WatchBell();
  void WatchInterfaces();
  void OnInterfacesChanged();
  std::uint64_t NextDeadline() const;
  void SendTheRest();
  void RefuseStranger(const std::string& from, const std::string& why);
  void ReportRefused(link::FabricNotice::Kind kind, const std::string& from,
                     const std::string& why);
  absl::Status Start();

  asio::io_context& io_;
  link::FabricOptions options_;
  platform::Wakeup bell_;
  asio::posix::stream_descriptor bell_watch_;
  rail::SocketWatches watches_;
  std::optional<platform::InterfaceWatch> interfaces_;
  asio::posix::stream_descriptor interfaces_watch_;
  asio::steady_timer interfaces_pause_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // A closed one stays until its loop ends.
  std::vector<std::unique_ptr<Dialer>> dialers_;
  asio::steady_timer tick_;
  std::uint64_t tick_ns_ = 0;           // The timer's deadline; 0: not running.
  std::uint64_t checked_tick_ns_ = 0;   // When it was last compared with the links' deadline.
  std::uint64_t rails_gone_ = 0;        // The links' number that was acted on.
  std::vector<ClusterKeyId> accepted_;  // Ids of the options' keys, newest first.
  std::map<RailKey, std::uint64_t> outdated_;  // Rails that must be proved again, and since when.
  std::uint64_t next_proof_check_ns_ = 0;
  std::vector<Stranger*> strangers_;  // Oldest first.
  std::uint64_t strangers_refused_ = 0;
  std::uint64_t stranger_refused_ns_ = 0;
  std::uint64_t refusals_logged_in_second_ = 0;
  std::uint64_t refusal_second_ = 0;
  bool active_ = false;
  bool stopped_ = false;
  Links& links_;
  std::vector<std::unique_ptr<SideRails>> side_rails_;
};

}  // namespace mlxcomm::fabric
