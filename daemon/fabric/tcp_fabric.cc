#include "daemon/fabric/tcp_fabric.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/connect.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/fabric/tcp/tcp_rail.h"
#include "daemon/platform/machine.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::fabric {
namespace {

using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.

constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);

struct HostAndPort {
  std::string host;
  std::string port;
};

// "HOST:PORT" or "[ADDRESS]:PORT".
absl::StatusOr<HostAndPort> Split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\": expected ADDRESS:PORT, such as 127.0.0.1:7470"));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return HostAndPort{host, std::to_string(port)};
}

std::string Describe(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? absl::StrCat("[", address, "]:", endpoint.port())
                                    : absl::StrCat(address, ":", endpoint.port());
}

// A connection that lasted less is dialed again after the back-off, not at once: a pair
// that cannot agree must not keep two nodes busy.
constexpr std::uint64_t kSteadyNs = 1'000'000'000;
// How long the orderly end waits until the rails have taken what is queued.
constexpr std::uint64_t kStopNs = 500'000'000;

bool Contains(const std::vector<NodeId>& nodes, const NodeId& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}
absl::Status TooManyNodes(std::size_t most) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "this daemon has met ", most, " nodes, the most it remembers; restart it if they are gone"));
}
void Remove(std::vector<NodeId>& nodes, const NodeId& node) {
  nodes.erase(std::find(nodes.begin(), nodes.end(), node));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Fabric>> Fabric::Create(asio::io_context& io, FabricOptions options,
                                                       FabricListener& listener) {
  const bool has_peers = !options.listen.empty() || !options.connect.empty();
  if (has_peers && options.key.size() != wire::kClusterKeyBytes) {
    return absl::FailedPreconditionError(
        "peers need the cluster's key: set peers { key_file } in the configuration");
  }
  auto fabric = std::make_unique<TcpFabric>(io, std::move(options), listener);
  if (absl::Status status = fabric->Start(); !status.ok()) return status;
  return std::unique_ptr<Fabric>(std::move(fabric));
}

TcpFabric::TcpFabric(asio::io_context& io, FabricOptions options, FabricListener& listener)
    : io_(io),
      options_(std::move(options)),
      listener_(listener),
      bell_watch_(io),
      router_(options_, *this),
      tick_(io) {}

TcpFabric::~TcpFabric() {
  Stop();
  bell_watch_.release();  // The bell owns its descriptor.
}

absl::Status TcpFabric::Start() {
  bell_watch_.assign(bell_.descriptor());
  WatchBell();
  for (const std::string& address : options_.listen) {
    const absl::StatusOr<HostAndPort> split = Split(address);
    if (!split.ok()) return split.status();
    asio::error_code error;
    const asio::ip::address ip = asio::ip::make_address(split->host, error);
    auto acceptor = std::make_unique<Tcp::acceptor>(io_);
    const Tcp::endpoint endpoint(ip, static_cast<std::uint16_t>(std::stoul(split->port)));
    if (!error) acceptor->open(endpoint.protocol(), error);
    if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor->bind(endpoint, error);
    if (!error) acceptor->listen(64, error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot listen on ", address, ": ", error.message()));
    }
    acceptors_.push_back(std::move(acceptor));
    asio::co_spawn(io_, AcceptLoop(*acceptors_.back()), asio::detached);
  }
  for (const std::string& address : options_.connect) {
    if (const auto split = Split(address); !split.ok()) return split.status();
    dialers_.push_back(std::make_unique<Dialer>(io_, address));
    asio::co_spawn(io_, DialLoop(*dialers_.back()), asio::detached);
  }
  if (!acceptors_.empty() || !dialers_.empty()) asio::co_spawn(io_, TickLoop(), asio::detached);
  return absl::OkStatus();
}

// The bell only ends the engine's sleep; the engine polls every rail in each turn.
void TcpFabric::WatchBell() {
  bell_watch_.async_wait(asio::posix::descriptor_base::wait_read,
                         [this](const asio::error_code& error) {
                           if (error) return;
                           bell_.Drain();
                           WatchBell();
                         });
}

Link* TcpFabric::FindLink(const NodeId& peer) const {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second.get();
}

// Makes it if there is none; nullptr: there are too many.
Link* TcpFabric::LinkTo(const NodeId& peer) {
  if (Link* const link = FindLink(peer); link != nullptr) return link;
  if (links_.size() >= kLinksMax) return nullptr;
  std::unique_ptr<Link>& link = links_[peer];
  link = std::make_unique<Link>(options_, peer, listener_, &router_);
  polled_.push_back(link.get());
  observed_.push_back(0);
  return link.get();
}

std::uint64_t TcpFabric::ConnectionsAdded(const NodeId& peer) const {
  const Link* const link = FindLink(peer);
  return link == nullptr ? 0 : link->connections_added();
}

bool TcpFabric::IsJoining(const NodeId& peer) const {
  return Contains(joining_as_acceptor_, peer) || Contains(joining_as_dialer_, peer);
}

// Tells the router of connections that have come and gone since the last call.
void TcpFabric::ObserveNeighbours() {
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    Link& link = *polled_[i];
    const std::uint64_t now = link.is_neighbour() ? link.connections_added() : 0;
    if (now == observed_[i]) continue;
    const bool reset = link.state() == Link::State::kLost || link.lost_by_reset();
    const NodeId node = link.peer().id;
    if (std::exchange(observed_[i], now) != 0) {
      router_.OnNeighbourGone(node, reset, link.detail());
    }
    if (now != 0) router_.OnNeighbourUp(node);
  }
}

bool TcpFabric::PrefersOwnDial(const NodeId& peer) const {
  return options_.self.id < peer && Contains(joining_as_dialer_, peer);
}

void TcpFabric::RefuseStranger(const std::string& from, const std::string& why) {
  ++strangers_refused_;
  constexpr std::uint64_t kLoggedPerSecond = 5;
  const std::uint64_t second = platform::MonotonicNow() / 1'000'000'000;
  if (second != refusal_second_) {
    refusal_second_ = second;
    refusals_logged_in_second_ = 0;
  }
  if (refusals_logged_in_second_++ < kLoggedPerSecond) {
    spdlog::warn("refused {} at the peer port: {}", from, why);
  }
}

asio::awaitable<void> TcpFabric::AcceptLoop(Tcp::acceptor& acceptor) {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(kTuple);
    if (stopped_ || !acceptor.is_open()) co_return;
    if (error) {
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(kTuple);
      continue;
    }
    if (strangers_ >= options_.strangers_max) {
      RefuseStranger("a connection", "too many that have not proved the key");
      continue;
    }
    asio::co_spawn(io_, Accept(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> TcpFabric::Accept(Tcp::socket socket) {
  asio::error_code ignored;
  const std::string from = Describe(socket.remote_endpoint(ignored));
  socket.set_option(Tcp::no_delay(true), ignored);  // The hello, too, is small messages.
  ++strangers_;
  const absl::StatusOr<Proved> proved = co_await CheckDialer(socket, options_);
  --strangers_;
  if (stopped_) co_return;
  if (!proved.ok()) {
    RefuseStranger(from, std::string(proved.status().message()));
    co_return;
  }
  wire::VerdictCode verdict = wire::VerdictCode::kAccepted;
  if (proved->peer == options_.self.id) {
    verdict = wire::VerdictCode::kSelf;
  } else if (PrefersOwnDial(proved->peer)) {
    verdict = wire::VerdictCode::kAlreadyLinked;
  }
  const std::uint64_t connections_added = ConnectionsAdded(proved->peer);
  absl::Status status = co_await SendVerdict(socket, options_, *proved, verdict);
  if (status.ok() && verdict == wire::VerdictCode::kAccepted && !stopped_) {
    status = co_await JoinAsAcceptor(socket, *proved, connections_added);
  }
  if (!status.ok()) {
    spdlog::info("connection from {} came to nothing: {}", from, std::string(status.message()));
  }
}

wire::Introduction TcpFabric::OwnIntroduction(const Link::Standing& standing) const {
  wire::Introduction own{};
  own.incarnation = options_.self.incarnation;
  own.session = standing.session;
  own.known_peer_session = standing.known_peer_session;
  own.next_expected = standing.next_expected;
  PutText(options_.self.name, own.node_name);
  PutText(options_.self.software_version, own.software_version);
  return own;
}

// `connections_added`: from before the verdict. The peer decides after it that it has no rail, so
// what says so is stale if one has come since then.
asio::awaitable<absl::Status> TcpFabric::JoinAsAcceptor(Tcp::socket& socket, const Proved& proved,
                                                        std::uint64_t connections_added) {
  const absl::StatusOr<wire::Introduction> theirs =
      co_await ReceiveIntroduction(socket, options_, proved);
  if (!theirs.ok()) co_return theirs.status();
  if (stopped_) co_return absl::AbortedError("stopping");
  if (PrefersOwnDial(proved.peer) || Contains(joining_as_acceptor_, proved.peer) ||
      ConnectionsAdded(proved.peer) != connections_added) {
    co_return absl::AbortedError("another connection is preferred");
  }
  Link* const link = LinkTo(proved.peer);
  if (link == nullptr) co_return TooManyNodes(kLinksMax);
  if (link->has_rail()) {
    link->RemoveRail("replaced by a newer connection", DownCause::kCut, platform::MonotonicNow());
    OnRailGone();
  }
  const Link::Standing told = link->standing();
  joining_as_acceptor_.push_back(proved.peer);
  absl::Status status =
      co_await SendIntroduction(socket, options_, proved, OwnIntroduction(told));
  if (stopped_) co_return absl::AbortedError("stopping");
  Remove(joining_as_acceptor_, proved.peer);
  if (status.ok()) status = AddRail(socket, proved, *theirs, told);
  co_return status;
}

asio::awaitable<absl::Status> TcpFabric::JoinAsDialer(Tcp::socket& socket,
                                                      const Proved& proved) {
  Link* const link = LinkTo(proved.peer);
  if (link == nullptr) co_return TooManyNodes(kLinksMax);
  if (link->is_neighbour() || IsJoining(proved.peer)) {
    co_return absl::AbortedError("linked already");
  }
  link->RemoveRail("replaced by a connection", DownCause::kCut, platform::MonotonicNow());
  const Link::Standing told = link->standing();
  joining_as_dialer_.push_back(proved.peer);
  const absl::Status sent =
      co_await SendIntroduction(socket, options_, proved, OwnIntroduction(told));
  absl::StatusOr<wire::Introduction> theirs = absl::UnavailableError(sent.message());
  if (sent.ok()) theirs = co_await ReceiveIntroduction(socket, options_, proved);
  if (stopped_) co_return absl::AbortedError("stopping");
  Remove(joining_as_dialer_, proved.peer);
  if (!theirs.ok()) co_return theirs.status();
  co_return AddRail(socket, proved, *theirs, told);
}

absl::Status TcpFabric::AddRail(Tcp::socket& socket, const Proved& proved,
                                const wire::Introduction& theirs, const Link::Standing& told) {
  asio::error_code error;
  std::string local = Describe(socket.local_endpoint(error));
  std::string remote = Describe(socket.remote_endpoint(error));
  if (error) return absl::UnavailableError(error.message());
  platform::FileDescriptor descriptor(socket.release(error));
  ::fcntl(descriptor.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(descriptor.get(), F_SETFD, FD_CLOEXEC);
  absl::StatusOr<std::unique_ptr<TcpRail>> rail =
      TcpRail::Create(std::move(descriptor), std::move(local), std::move(remote), bell_);
  if (!rail.ok()) return rail.status();
  NodeIdentity peer;
  peer.id = proved.peer;
  peer.name = MakePrintable(TextOf(theirs.node_name));
  peer.software_version = MakePrintable(TextOf(theirs.software_version));
  peer.incarnation = theirs.incarnation;
  const absl::Status added = FindLink(proved.peer)->AddRail(*std::move(rail), peer, theirs, told,
                                                            platform::MonotonicNow());
  ObserveNeighbours();
  return added;
}

asio::awaitable<void> TcpFabric::DialLoop(Dialer& dialer) {
  std::minstd_rand random(static_cast<std::uint32_t>(RandomNumber()));
  std::uint64_t delay_ns = options_.reconnect_delay_min_ns;
  const auto linked = [&] {
    const Link* const link = dialer.known ? FindLink(dialer.peer) : nullptr;
    return link != nullptr && link->is_neighbour();
  };
  while (!stopped_) {
    if (linked()) {
      const std::uint64_t since = platform::MonotonicNow();
      dialer.pause.expires_at(asio::steady_timer::time_point::max());
      dialer.waits_for_rail_to_go = true;
      co_await dialer.pause.async_wait(kTuple);
      dialer.waits_for_rail_to_go = false;
      if (platform::MonotonicNow() - since < kSteadyNs) {
        dialer.pause.expires_after(std::chrono::nanoseconds(delay_ns));
        delay_ns = std::min(2 * delay_ns, options_.reconnect_delay_max_ns);
        co_await dialer.pause.async_wait(kTuple);
      } else {
        delay_ns = options_.reconnect_delay_min_ns;
      }
      continue;
    }
    const absl::Status status = co_await Dial(dialer);
    if (stopped_) co_return;
    if (status.ok() || linked()) {
      dialer.detail.clear();
      continue;
    }
    if (dialer.detail != status.message()) {
      dialer.detail = std::string(status.message());
      spdlog::info("{}: {}", dialer.address, dialer.detail);
    }
    Link* const known = dialer.known ? FindLink(dialer.peer) : nullptr;
    // A refusal after a reset: nobody is there any more.
    if (known != nullptr && known->lost_by_reset() && absl::IsNotFound(status)) {
      known->Lose(absl::UnavailableError("its daemon has ended"));
    }
    dialer.pause.expires_after(std::chrono::nanoseconds(delay_ns + random() % (delay_ns / 4 + 1)));
    delay_ns = std::min(2 * delay_ns, options_.reconnect_delay_max_ns);
    co_await dialer.pause.async_wait(kTuple);
  }
}

// NOT_FOUND: the connection was refused.
asio::awaitable<absl::Status> TcpFabric::Connect(Tcp::socket& socket, const std::string& address) {
  const HostAndPort to = *Split(address);
  asio::steady_timer deadline(io_, std::chrono::nanoseconds(options_.greeting_timeout_ns));
  Tcp::resolver resolver(io_);
  const auto resolved = co_await (resolver.async_resolve(to.host, to.port, kTuple) ||
                                  deadline.async_wait(kTuple));
  if (resolved.index() == 1) co_return absl::UnavailableError("its name is not resolved in time");
  const auto& [resolve_error, endpoints] = std::get<0>(resolved);
  if (resolve_error) {
    co_return absl::UnavailableError(absl::StrCat("no such host: ", resolve_error.message()));
  }
  const auto first = co_await (asio::async_connect(socket, endpoints, kTuple) ||
                               deadline.async_wait(kTuple));
  if (first.index() == 1) co_return absl::UnavailableError("no answer to connect in time");
  if (const asio::error_code error = std::get<0>(std::get<0>(first)); error) {
    const std::string text = absl::StrCat("cannot connect: ", error.message());
    if (error == asio::error::connection_refused) co_return absl::NotFoundError(text);
    co_return absl::UnavailableError(text);
  }
  asio::error_code ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  co_return absl::OkStatus();
}

// NOT_FOUND: the connection was refused.
asio::awaitable<absl::Status> TcpFabric::Dial(Dialer& dialer) {
  Tcp::socket socket(io_);
  const absl::Status connected = co_await Connect(socket, dialer.address);
  if (!connected.ok()) co_return connected;
  absl::StatusOr<Proved> proved = co_await ProveAsDialer(socket, options_);
  if (!proved.ok()) co_return proved.status();
  const absl::StatusOr<wire::VerdictCode> verdict =
      co_await ReceiveVerdict(socket, options_, *proved);
  if (!verdict.ok()) co_return verdict.status();
  if (stopped_) co_return absl::AbortedError("stopping");
  if (proved->peer == options_.self.id) {
    co_return absl::UnavailableError("this is this node itself, or one with the same node id");
  }
  dialer.peer = proved->peer;
  dialer.known = true;
  switch (*verdict) {
    case wire::VerdictCode::kAccepted: break;
    case wire::VerdictCode::kStopping: co_return absl::UnavailableError("it is stopping");
    case wire::VerdictCode::kAlreadyLinked: co_return absl::AbortedError("linked already");
    default: co_return absl::UnavailableError("it refuses the connection");
  }
  co_return co_await JoinAsDialer(socket, *proved);
}

asio::awaitable<void> TcpFabric::TickLoop() {
  while (!stopped_) {
    const std::uint64_t now = platform::MonotonicNow();
    std::uint64_t next = now + options_.heartbeat_interval_ns;
    for (std::size_t i = 0; i < polled_.size(); ++i) {
      const bool had_rail = polled_[i]->has_rail();
      polled_[i]->OnTick(now);
      polled_[i]->OnTime(now);
      if (had_rail && !polled_[i]->has_rail()) OnRailGone();
      next = std::min(next, polled_[i]->deadline_ns());
    }
    router_.Turn(now);  // So that its deadline is not over.
    next = std::min(next, router_.deadline_ns());
    tick_.expires_after(std::chrono::nanoseconds(next > now ? next - now : 1));
    co_await tick_.async_wait(kTuple);
  }
}

bool TcpFabric::IsReachable(const NodeId& node) const {
  const Link* const link = FindLink(node);
  return link != nullptr && link->reachable();
}

absl::Status TcpFabric::Send(const NodeId& node, const wire::FrameHeader& header,
                             const std::byte* payload, std::uint64_t cookie) {
  Link* const link = FindLink(node);
  if (link == nullptr) return absl::FailedPreconditionError("no link to this node");
  return link->Send(header, payload, cookie);
}

absl::Status TcpFabric::PostReceive(const NodeId& node, const PostedReceive& receive) {
  Link* const link = FindLink(node);
  if (link == nullptr) return absl::FailedPreconditionError("no link to this node");
  return link->PostReceive(receive);
}

void TcpFabric::Withdraw(const NodeId& node, const OperationKey& key) {
  if (Link* const link = FindLink(node); link != nullptr) link->Withdraw(key);
}

void TcpFabric::Cancel(const NodeId& node, const OperationKey& key) {
  if (Link* const link = FindLink(node); link != nullptr) link->Cancel(key);
}

std::size_t TcpFabric::Poll() {
  std::size_t count = 0;
  const std::uint64_t now = polled_.empty() ? 0 : platform::MonotonicNow();
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    const bool had_rail = polled_[i]->has_rail();
    count += polled_[i]->Poll(now);
    if (had_rail && !polled_[i]->has_rail()) OnRailGone();
  }
  ObserveNeighbours();
  router_.Turn(now);
  return count;
}

// The clock must know of the grace period, and who has the address dials again. Other
// dialers go on waiting: a link that flaps must not undo their back-off.
void TcpFabric::OnRailGone() {
  tick_.cancel();
  for (const auto& dialer : dialers_) {
    if (!dialer->waits_for_rail_to_go) continue;
    const Link* const link = FindLink(dialer->peer);
    if (link == nullptr || !link->is_neighbour()) dialer->pause.cancel();
  }
}

bool TcpFabric::PrepareToSleep() {
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    polled_[i]->FlushAcknowledgement();
    if (!polled_[i]->HasWork() &&
        (!polled_[i]->has_rail() || polled_[i]->rail()->PrepareToSleep())) {
      continue;
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (polled_[k]->has_rail()) polled_[k]->rail()->WakeUp();
    }
    return false;
  }
  return true;
}

void TcpFabric::WakeUp() {
  for (Link* const link : polled_) {
    if (link->has_rail()) link->rail()->WakeUp();
  }
}

std::vector<LinkSnapshot> TcpFabric::Snapshot() const {
  std::vector<LinkSnapshot> snapshots;
  for (const Link* const link : polled_) snapshots.push_back(link->Snapshot());
  for (const auto& dialer : dialers_) {
    if (dialer->known && FindLink(dialer->peer) != nullptr) continue;
    LinkSnapshot snapshot;
    snapshot.peer = dialer->address;
    snapshot.state = "connecting";
    snapshot.detail = dialer->detail;
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

std::vector<std::string> TcpFabric::listening() const {
  std::vector<std::string> addresses;
  for (const auto& acceptor : acceptors_) {
    asio::error_code error;
    const Tcp::endpoint endpoint = acceptor->local_endpoint(error);
    if (!error) addresses.push_back(Describe(endpoint));
  }
  return addresses;
}

void TcpFabric::Stop() {
  if (std::exchange(stopped_, true)) return;
  asio::error_code ignored;
  for (const auto& acceptor : acceptors_) acceptor->close(ignored);
  for (const auto& dialer : dialers_) dialer->pause.cancel();
  tick_.cancel();
  SendTheRest();
  // Circuits first: their last word goes over the connections.
  for (const bool over_connection : {false, true}) {
    for (Link* const link : polled_) {
      if (link->has_rail() && link->is_neighbour() == over_connection) link->rail()->Finish();
    }
  }
  for (Link* const link : polled_) {
    if (link->has_rail()) link->rail()->Stop();
  }
}

// What was said last, such as why this daemon ends, waits behind all else: time for the
// rails to make room for it.
void TcpFabric::SendTheRest() {
  const std::uint64_t deadline = platform::MonotonicNow() + kStopNs;
  for (Link* const link : polled_) link->FlushAcknowledgement();
  for (;;) {
    bool all_handed = true;
    for (const bool over_connection : {false, true}) {
      for (Link* const link : polled_) {
        if (link->has_rail() && link->is_neighbour() != over_connection) continue;
        all_handed = link->HandTheRest() && all_handed;
      }
    }
    const std::uint64_t now = platform::MonotonicNow();
    if (all_handed || now >= deadline) return;
    bool may_sleep = true;
    for (Link* const link : polled_) {
      if (link->has_rail()) may_sleep = link->rail()->PrepareToSleep() && may_sleep;
    }
    pollfd bell = {bell_.descriptor(), POLLIN, 0};
    if (may_sleep) ::poll(&bell, 1, static_cast<int>((deadline - now) / 1'000'000 + 1));
    bell_.Drain();
    WakeUp();
  }
}

}  // namespace mlxcomm::fabric
