// The sockets of a node's links (link/links.h). Listens, dials, proves the key, makes rails of what has been
// proved, and watches the machine's interfaces. See README.md, TcpFabric.
//
//   dialer:   prove ─▶ TLS ─▶ Links::BeginAsDialer ─▶ introduce ─▶ Links::Finish
//   acceptor: prove, Judge ─▶ verdict ─▶ TLS ─▶ read ─▶ BeginAsAcceptor ─▶ introduce ─▶ Finish
//
// There is one connection for each path: two cables between two nodes are two addresses and two rails; two
// addresses over one cable are one rail.
//
// Owner: Daemon. Thread: the loop's. Memory: one coroutine for each address; at most strangers_max
// unproved connections.
#pragma once

#include <memory>
#include <optional>
#include <string>
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
  // Starts listening and dialing once the io_context runs. `links` outlives it but for its destructor,
  // before which Stop() is called while the links are there, and the links go while it is there: their rails
  // use what is here. `side_rails`, called once, makes the other transports' rails; empty: there
  // are none. Errors: a listen address that cannot be parsed or bound, peers without a key.
  static absl::StatusOr<std::unique_ptr<TcpFabric>> Create(asio::io_context& io,
                                                           link::FabricOptions options,
                                                           Links& links,
                                                           const SideRailsMaker& side_rails = {});
  TcpFabric(asio::io_context& io, link::FabricOptions options, Links& links,
            const SideRailsMaker& side_rails = {});
  // The io_context may not run after it, because coroutines of the fabric wait there.
  ~TcpFabric();

  // Much may be sent from this memory, as long as it is not removed: rails may then send from
  // it without a copy. A rail that still reads it after that keeps its owner. By its address.
  void AddMemory(const rail::ClientMemory& memory) {
    for (const auto& side : side_rails_) side->AddMemory(memory);
  }
  void RemoveMemory(const std::byte* data) {
    for (const auto& side : side_rails_) side->RemoveMemory(data);
  }

  // Rail events since the last call are handed to the links' listener. Returns how
  // many. The loop calls it every turn while awake.
  std::size_t Poll();
  // As RingConsumer: announces that the loop will sleep in the io_context;
  // false: something has come in between. While announced, rails wake it.
  bool PrepareToSleep();
  void WakeUp() { links_.WakeUp(); }

  // Addresses that come and go while the fabric runs, besides those of its options. They
  // need the key. To remove one ends no rail that came of it.
  // "[fe80::1%en2]:7470"; port 0: any. The port.
  absl::StatusOr<std::uint16_t> AddListener(const std::string& address);
  void RemoveListener(const std::string& address);  // As it was added.
  absl::Status AddPeer(const std::string& address);
  void RemovePeer(const std::string& address);

  // The links, what is still being dialed, and the state of the other transports.
  void Describe(v1::NodeStatus& status) const;
  std::uint64_t strangers_refused() const { return strangers_refused_; }
  std::uint64_t stranger_refused_ns() const { return stranger_refused_ns_; }  // The last one.
  // "127.0.0.1:40123" for each listening address, with the real port.
  std::vector<std::string> listening() const;

  // From here on connections are proved with these. Those that are up and were proved with
  // another are proved again meanwhile, or end within new_proof_timeout; no frame is lost by it.
  void SetKeys(const ClusterKeys& keys);
  // Ids of those, the current one first; none where there are no peers.
  std::vector<std::string> key_ids() const;

  // What the links report to their port (LinksPort).
  void OnRailSetup(const NodeId& node, std::span<const std::byte> payload) {
    for (const auto& side : side_rails_) side->OnRailSetup(node, payload);
  }
  void OnRailGone();
  void OnDeadlineChanged() { tick_.cancel(); }

  // Orderly end: what is queued is sent, within a second, then neighbours learn of
  // the end by the connection's; no new connections, no callbacks any more. Idempotent.
  void Stop();

 private:
  using Tcp = asio::ip::tcp;
  // One address, configured or added.
  struct Dialer {
    Dialer(asio::io_context& io, std::string to) : address(std::move(to)), pause(io) {}
    std::string address;
    asio::steady_timer pause;
    NodeId peer;  // Once known, as the path.
    rail::RailPath path;
    bool known = false;
    enum class Waits : std::uint8_t { kNot, kForRailToGo, kForAnswer, kInBackOff };
    Waits waits = Waits::kNot;
    std::uint64_t delay_ns = 0;
    std::uint64_t incarnation = 0;  // Of the daemon that it was connected with last.
    std::string detail;             // Why it is not connected, for people and for programs.
    LinkReason reason = LinkReason::kNone;
    bool added = false;    // Not of the options.
    bool removed = false;  // Its loop ends, and with it the dialer.
  };
  struct Listener {
    std::string address;
    Tcp::acceptor acceptor;
  };

  // A rail that is to be proved again.
  struct Outdated {
    NodeId peer;
    rail::RailPath path;
    std::uint64_t since_ns = 0;
  };

  // A connection that has not proved the key yet; in its Accept.
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
  // By one that need not be proved again.
  bool IsLinked(const Dialer& dialer) const {
    return HasRail(dialer) && !IsOutdated(dialer.peer, dialer.path);
  }
  // tcp_fabric_keys.cc
  void TakeKeys();
  bool IsTaken(const ClusterKeyId& key) const;
  bool IsOutdated(const NodeId& peer, const rail::RailPath& path) const;
  void LookAtProofs(std::uint64_t now_ns);
  asio::awaitable<void> TickLoop();
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
  rail::SocketWatches watches_;  // Rails have some.
  std::optional<platform::InterfaceWatch> interfaces_;
  asio::posix::stream_descriptor interfaces_watch_;
  asio::steady_timer interfaces_pause_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // A closed one until its loop has ended.
  std::vector<std::unique_ptr<Dialer>> dialers_;
  asio::steady_timer tick_;
  std::uint64_t tick_ns_ = 0;        // What it is set to; 0: it does not run.
  std::vector<ClusterKeyId> taken_;  // Of the options' keys, newest first.
  std::vector<Outdated> outdated_;
  std::uint64_t next_look_at_proofs_ns_ = 0;
  std::vector<Stranger*> strangers_;  // Oldest first.
  std::uint64_t strangers_refused_ = 0;
  std::uint64_t stranger_refused_ns_ = 0;
  std::uint64_t refusals_logged_in_second_ = 0;
  std::uint64_t refusal_second_ = 0;
  bool active_ = false;
  bool stopped_ = false;
  Links& links_;
  std::vector<std::unique_ptr<SideRails>> side_rails_;  // Their rails are the links'.
};

}  // namespace mlxcomm::fabric
