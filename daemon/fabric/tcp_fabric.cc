#include "daemon/fabric/tcp_fabric.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/fabric/node_places.h"
#include "daemon/platform/await_tuple.h"
#include "daemon/platform/machine.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rail/tcp/tcp_rail.h"
#include "daemon/rail/tcp/tcp_socket.h"
#include "daemon/rail/text_field.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::fabric {
namespace {

using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.
using platform::kTuple;

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

std::string TextOf(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? absl::StrCat("[", address, "]:", endpoint.port())
                                    : absl::StrCat(address, ":", endpoint.port());
}

// IPv6 unchanged, IPv4 mapped.
std::array<std::uint8_t, 16> BytesOf(const asio::ip::address& address) {
  return address.is_v6()
             ? address.to_v6().to_bytes()
             : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4()).to_bytes();
}

LinkReason ReasonOfError(const asio::error_code& error) {
  if (error == asio::error::host_unreachable) return LinkReason::kNoRouteToHost;
  // The system's own timeout has passed, which is longer than this daemon's.
  return error == asio::error::timed_out ? LinkReason::kNoAnswer : LinkReason::kConnectFailed;
}

// A connection that lasted less is dialed only after the back-off: a pair may be unable to agree.
constexpr std::uint64_t kSteadyConnectionNs = 1'000'000'000;
// Dialing tries again after this long, then after twice as long. (A lost SYN is resent after 1 s.)
constexpr asio::steady_timer::duration kConnectPatience = std::chrono::milliseconds(400);
// Stop() waits this long for the rails to take what is queued.
constexpr std::uint64_t kStopNs = 500'000'000;

constexpr char kTooManyStrangers[] = "too many connections have not proved the key";
// A loop that does not sleep checks this often whether a deadline comes before the next tick.
constexpr std::uint64_t kCheckTickNs = 1'000'000;
constexpr char kTooManyUnintroduced[] =
    "it has proved the key but not introduced itself, and too many others are waiting";

}  // namespace

absl::StatusOr<std::unique_ptr<TcpFabric>> TcpFabric::Create(asio::io_context& io,
                                                             link::FabricOptions options,
                                                             Links& links,
                                                             const SideRailsMaker& side_rails) {
  const bool has_peers = !options.listen.empty() || !options.connect.empty();
  if (has_peers && !options.keys.has_value()) {
    return absl::FailedPreconditionError(
        "peers need the cluster's key: set peers { key_file } in the configuration");
  }
  auto fabric = std::make_unique<TcpFabric>(io, std::move(options), links, side_rails);
  if (absl::Status status = fabric->Start(); !status.ok()) return status;
  return fabric;
}

TcpFabric::TcpFabric(asio::io_context& io, link::FabricOptions options, Links& links,
                     const SideRailsMaker& side_rails)
    : io_(io),
      options_(std::move(options)),
      bell_watch_(io),
      watches_(io),
      interfaces_watch_(io),
      interfaces_pause_(io),
      tick_(io),
      links_(links) {
  links_.SetRailSetup([this](const NodeId& node, std::span<const std::byte> payload) {
    for (const auto& side : side_rails_) side->OnRailSetup(node, payload);
  });
  if (side_rails) side_rails_ = side_rails(options_, links_, bell_);
  CacheKeyIds();
}

TcpFabric::~TcpFabric() {
  bell_watch_.release();  // Both descriptors have other owners.
  if (interfaces_watch_.is_open()) interfaces_watch_.release();
}

absl::Status TcpFabric::Start() {
  bell_watch_.assign(bell_.descriptor());
  WatchBell();
  for (const std::string& address : options_.listen) {
    if (absl::Status status = Listen(address); !status.ok()) return status;
  }
  for (const std::string& address : options_.connect) {
    if (const auto split = Split(address); !split.ok()) return split.status();
    dialers_.push_back(std::make_unique<Dialer>(io_, address));
  }
  if (!listeners_.empty() || !dialers_.empty()) Activate();
  for (const auto& dialer : dialers_) asio::co_spawn(io_, DialLoop(*dialer), asio::detached);
  return absl::OkStatus();
}

// Called with the first address: a daemon without neighbours has nothing to watch.
void TcpFabric::Activate() {
  if (std::exchange(active_, true)) return;
  WatchInterfaces();
  asio::co_spawn(io_, TickLoop(), asio::detached);
}

absl::Status TcpFabric::Listen(const std::string& address) {
  const absl::StatusOr<HostAndPort> split = Split(address);
  if (!split.ok()) return split.status();
  asio::error_code error;
  const asio::ip::address ip = asio::ip::make_address(split->host, error);
  const bool names_interface = split->host.find('%') != std::string::npos;
  if (!error && names_interface && ip.is_v6() && ip.to_v6().scope_id() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address, ": no such interface (check `ip link`)"));
  }
  auto listener = std::make_unique<Listener>(Listener{address, Tcp::acceptor(io_)});
  Tcp::acceptor* const acceptor = &listener->acceptor;
  const Tcp::endpoint endpoint(ip, static_cast<std::uint16_t>(std::stoul(split->port)));
  if (!error) acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) rail::LeavePacing(acceptor->native_handle());
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(64, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address, ": ", error.message()));
  }
  listeners_.push_back(std::move(listener));
  asio::co_spawn(io_, AcceptLoop(*listeners_.back()), asio::detached);
  return absl::OkStatus();
}

// The bell only ends the loop's sleep; the loop polls every rail in each turn.
void TcpFabric::WatchBell() {
  bell_watch_.async_wait(asio::posix::descriptor_base::wait_read,
                         [this](const asio::error_code& error) {
                           if (error) return;
                           bell_.Drain();
                           WatchBell();
                         });
}

void TcpFabric::WatchInterfaces() {
  if (!interfaces_.has_value()) {
    absl::StatusOr<platform::InterfaceWatch> watch = platform::InterfaceWatch::Create();
    if (!watch.ok()) {
      spdlog::warn("{}; a pulled cable is noticed only after {} ms of silence",
                   std::string(watch.status().message()),
                   options_.heartbeat_timeout_ns / 1'000'000);
      return;
    }
    interfaces_.emplace(*std::move(watch));
    interfaces_watch_.assign(interfaces_->descriptor());
  }
  interfaces_watch_.async_wait(asio::posix::descriptor_base::wait_read,
                               [this](const asio::error_code& error) {
                                 if (error || stopped_) return;
                                 OnInterfacesChanged();
                                 interfaces_pause_.expires_after(platform::InterfaceWatch::kPause);
                                 interfaces_pause_.async_wait([this](const asio::error_code& over) {
                                   if (!over && !stopped_) WatchInterfaces();
                                 });
                               });
}

void TcpFabric::OnInterfacesChanged() {
  bool any_up = false;
  for (const platform::InterfaceChange& change : interfaces_->Read()) {
    if (change.kind == platform::InterfaceChange::Kind::kDown) {
      spdlog::info("interface {} is down", change.name);
      links_.OnInterfaceDown(change.name, platform::MonotonicNow());
    } else {
      spdlog::debug("interface {} is up", change.name);
      any_up = true;
    }
  }
  if (!any_up) return;
  const std::uint64_t now = platform::MonotonicNow();
  links_.OnInterfaceUp(now);
  for (const auto& side : side_rails_) side->OnInterfaceUp(now);
  for (const auto& dialer : dialers_) {
    dialer->delay_ns = options_.reconnect_delay_min_ns;
    if (dialer->waits == Dialer::Waits::kInBackOff || dialer->waits == Dialer::Waits::kForAnswer) {
      dialer->pause.cancel();
    }
  }
}

asio::awaitable<void> TcpFabric::AcceptLoop(Listener& listener) {
  while (!stopped_ && listener.acceptor.is_open()) {
    auto [error, socket] = co_await listener.acceptor.async_accept(kTuple);
    if (stopped_) co_return;
    if (error && listener.acceptor.is_open()) {
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(kTuple);
    }
    if (!error) asio::co_spawn(io_, Accept(std::move(socket)), asio::detached);
  }
  if (!stopped_) std::erase_if(listeners_, [&](const auto& one) { return one.get() == &listener; });
}

asio::awaitable<void> TcpFabric::Accept(Tcp::socket socket) {
  asio::error_code ignored;
  const Tcp::endpoint remote = socket.remote_endpoint(ignored);
  const std::string from = TextOf(remote);
  socket.set_option(Tcp::no_delay(true), ignored);  // The handshake is small messages, too.
  MakePlaceForStranger();
  Stranger stranger{socket, remote.address()};
  strangers_.push_back(&stranger);
  absl::StatusOr<Proved> proved = co_await CheckDialer(socket, options_);
  if (stopped_ || stranger.gave_way || !proved.ok()) {
    if (!stranger.gave_way) std::erase(strangers_, &stranger);
    if (stopped_) co_return;
    RefuseStranger(from,
                   stranger.gave_way ? kTooManyStrangers : std::string(proved.status().message()));
    co_return;
  }
  const Links::Origin origin{remote.address().to_string(), link::NodeClaim::kComes};
  const wire::VerdictCode verdict = links_.Judge(proved->peer, proved->path, origin);
  const Links::RailMark mark = links_.MarkOf(proved->peer, proved->path);
  absl::Status status = co_await SendVerdict(socket, options_, *proved, verdict);
  const bool accepted = verdict == wire::VerdictCode::kAccepted;
  absl::StatusOr<Stream> stream = nullptr;
  if (status.ok() && accepted && !stopped_) {
    stream = co_await Secure(socket, *proved);
    status = stream.status();
  }
  // A silent peer that has proved the key still counts as a stranger.
  absl::StatusOr<wire::Introduction> theirs = wire::Introduction{};
  if (status.ok() && accepted && !stopped_ && !stranger.gave_way) {
    theirs = co_await ReceiveIntroduction(socket, **stream, *proved);
    status = theirs.status();
  }
  if (!stranger.gave_way) std::erase(strangers_, &stranger);
  if (stopped_) co_return;
  if (stranger.gave_way || absl::IsPermissionDenied(status)) {
    RefuseStranger(from, stranger.gave_way ? kTooManyUnintroduced : std::string(status.message()));
    co_return;
  }
  const bool too_many = IsTooMany(verdict);
  if (too_many) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "node ", proved->peer.ToString(), ": ", TooManyText(verdict, options_.nodes_max, "here")));
  } else if (status.ok() && accepted) {
    status = co_await JoinAsAcceptor(socket, *std::move(stream), *proved, mark, *theirs, origin);
  }
  // Other refusals, such as of a further cable, do not count as a refused node.
  const bool reported_none = too_many && verdict != wire::VerdictCode::kTooManyConnections;
  if (reported_none) links_.CountRefused();
  if (reported_none || Links::IsNoPlace(status)) {
    ReportRefused(link::FabricNotice::Kind::kNodeRefused, from, std::string(status.message()));
  } else if (!status.ok() &&
             rail::ReasonOf(status) != LinkReason::kSameId) {  // The link has logged it.
    spdlog::info("connection from {} failed: {}", from, std::string(status.message()));
  }
}

asio::awaitable<absl::Status> TcpFabric::JoinAsAcceptor(Tcp::socket& socket, Stream stream,
                                                        const Proved& proved, Links::RailMark mark,
                                                        const wire::Introduction& theirs,
                                                        const Links::Origin& from) {
  const absl::StatusOr<Links::Join> join = links_.BeginAsAcceptor(
      proved.peer, proved.path, theirs, mark, platform::MonotonicNow(), from);
  if (rail::ReasonOf(join.status()) == LinkReason::kSameId)
    (void)co_await SendIntroduction(socket, *stream, proved, wire::Introduction{});
  if (!join.ok()) co_return join.status();
  const absl::Status sent = co_await SendIntroduction(socket, *stream, proved, join->own);
  if (stopped_) co_return absl::AbortedError("stopping");
  if (sent.ok()) co_return AddRail(socket, std::move(stream), proved, *join, theirs);
  links_.Abandon(*join);
  co_return sent;
}

asio::awaitable<absl::Status> TcpFabric::JoinAsDialer(Tcp::socket& socket, Stream stream,
                                                      const Proved& proved,
                                                      const Links::Origin& to) {
  if (IsOutdated(proved.peer, proved.path)) {
    links_.RemoveRail(proved.peer, proved.path, "proved again with the cluster's new key",
                      LinkReason::kReplaced, platform::MonotonicNow());
  }
  const absl::StatusOr<Links::Join> join = links_.BeginAsDialer(proved.peer, proved.path, to);
  if (!join.ok()) co_return join.status();
  const absl::Status sent = co_await SendIntroduction(socket, *stream, proved, join->own);
  absl::StatusOr<wire::Introduction> theirs =
      rail::WithReason(absl::UnavailableError(sent.message()), rail::ReasonOf(sent));
  if (sent.ok()) theirs = co_await ReceiveIntroduction(socket, *stream, proved);
  if (stopped_) co_return absl::AbortedError("stopping");
  if (theirs.ok()) co_return AddRail(socket, std::move(stream), proved, *join, *theirs);
  links_.Abandon(*join);
  co_return theirs.status();
}

std::vector<std::string> TcpFabric::listening() const {
  std::vector<std::string> addresses;
  for (const auto& listener : listeners_) {
    asio::error_code error;
    const Tcp::endpoint endpoint = listener->acceptor.local_endpoint(error);
    if (!error) addresses.push_back(TextOf(endpoint));
  }
  return addresses;
}

absl::Status TcpFabric::AddRail(Tcp::socket& socket, Stream stream, const Proved& proved,
                                const Links::Join& join, const wire::Introduction& theirs) {
  asio::error_code error;
  const Tcp::endpoint here = socket.local_endpoint(error);
  std::string local = TextOf(here);
  std::string remote;
  if (!error) remote = TextOf(socket.remote_endpoint(error));
  FileDescriptor descriptor(error ? -1 : socket.release(error));
  if (error) {
    links_.Abandon(join);
    return absl::UnavailableError(error.message());
  }
  ::fcntl(descriptor.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(descriptor.get(), F_SETFD, FD_CLOEXEC);
  const std::string name = absl::StrCat("to ", MakePrintable(rail::TextOf(theirs.node_name)),
                                        " tcp ", local, " - ", remote);
  absl::StatusOr<std::unique_ptr<rail::TcpRail>> rail =
      rail::TcpRail::Create(std::move(descriptor), std::move(local), std::move(remote),
                            options_.scheduling, bell_, watches_.Take(), std::move(stream));
  if (!rail.ok()) {
    links_.Abandon(join);
    return rail.status();
  }
  if (options_.rail_observers) (*rail)->Observe(options_.rail_observers(name));
  const ClusterKeyId key = proved.key->id();
  (*rail)->SetProvedWith(key);
  (*rail)->SetPeersVersions(proved.versions);
  const bool encrypted = (*rail)->is_encrypted();
  const absl::Status joined =
      links_.Finish(join, *std::move(rail), theirs, platform::MonotonicNow());
  if (!joined.ok()) return joined;
  if (IsAccepted(key)) outdated_.erase({proved.peer, proved.path});
  for (const auto& side : side_rails_) {
    side->OnConnection({join.peer, join.path, BytesOf(here.address()), encrypted, key});
  }
  return joined;
}

// Adds some randomness, so that two nodes do not keep dialing each other at once.
asio::awaitable<void> TcpFabric::BackOff(Dialer& dialer) {
  const std::uint64_t delay_ns = dialer.delay_ns + rail::RandomNumber() % (dialer.delay_ns / 4 + 1);
  dialer.delay_ns = std::min(2 * dialer.delay_ns, options_.reconnect_delay_max_ns);
  dialer.pause.expires_after(std::chrono::nanoseconds(delay_ns));
  dialer.waits = Dialer::Waits::kInBackOff;
  co_await dialer.pause.async_wait(kTuple);
  dialer.waits = Dialer::Waits::kNot;
}

asio::awaitable<void> TcpFabric::DialLoop(Dialer& dialer) {
  dialer.delay_ns = options_.reconnect_delay_min_ns;
  while (!stopped_ && !dialer.removed) {
    if (IsLinked(dialer)) {
      dialer.detail.clear();
      dialer.reason = LinkReason::kNone;
      // The daemon there was restarted: earlier failures say nothing about it.
      const std::uint64_t incarnation = links_.IncarnationOf(dialer.peer);
      if (std::exchange(dialer.incarnation, incarnation) != incarnation)
        dialer.delay_ns = options_.reconnect_delay_min_ns;
      const std::uint64_t since = platform::MonotonicNow();
      dialer.pause.expires_at(asio::steady_timer::time_point::max());
      dialer.waits = Dialer::Waits::kForRailToGo;
      co_await dialer.pause.async_wait(kTuple);
      dialer.waits = Dialer::Waits::kNot;
      if (platform::MonotonicNow() - since >= kSteadyConnectionNs) {
        dialer.delay_ns = options_.reconnect_delay_min_ns;
      } else if (!stopped_ && !dialer.removed) {
        co_await BackOff(dialer);
      }
      continue;
    }
    const absl::Status status = co_await Dial(dialer);
    if (stopped_) co_return;
    if (status.ok() || dialer.removed || IsLinked(dialer)) continue;
    dialer.reason = rail::ReasonOf(status, LinkReason::kConnectFailed);
    if (dialer.detail != status.message()) {
      dialer.detail = std::string(status.message());
      spdlog::info("{}: {}", dialer.address, dialer.detail);
      links_.Report({link::FabricNotice::Kind::kDialFails, dialer.address, {}, dialer.detail});
    }
    // Refused after a reset: the daemon has stopped.
    if (dialer.known && absl::IsNotFound(status)) {
      links_.OnGone(dialer.peer, "its daemon has stopped");
    }
    co_await BackOff(dialer);
  }
  if (!stopped_) std::erase_if(dialers_, [&](const auto& one) { return one.get() == &dialer; });
}

// One thread resolves all names, and a silent name server blocks it. So numeric addresses skip it.
asio::awaitable<absl::StatusOr<std::vector<TcpFabric::Tcp::endpoint>>> TcpFabric::Resolve(
    Dialer& dialer) {
  const HostAndPort to = *Split(dialer.address);
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(to.host, error);
  const bool names_interface = to.host.find('%') != std::string::npos;
  // If the interface does not exist, the resolver's error is the better one.
  if (!error && (!names_interface || (address.is_v6() && address.to_v6().scope_id() != 0))) {
    co_return std::vector{Tcp::endpoint(address, static_cast<std::uint16_t>(std::stoul(to.port)))};
  }
  Tcp::resolver resolver(io_);
  const auto resolved = co_await (resolver.async_resolve(to.host, to.port, kTuple) ||
                                  dialer.pause.async_wait(kTuple));
  if (resolved.index() == 1) {
    co_return rail::WithReason(absl::UnavailableError("its name was not resolved in time"),
                               LinkReason::kUnknownHost);
  }
  const auto& [resolve_error, endpoints] = std::get<0>(resolved);
  if (resolve_error) {
    co_return rail::WithReason(absl::UnavailableError(absl::StrCat("no such host or interface: ",
                                                                   resolve_error.message())),
                               LinkReason::kUnknownHost);
  }
  co_return std::vector<Tcp::endpoint>(endpoints.begin(), endpoints.end());
}

// Returns NOT_FOUND if the connection was refused.
asio::awaitable<absl::Status> TcpFabric::Connect(Tcp::socket& socket, Dialer& dialer) {
  asio::steady_timer& pause = dialer.pause;
  const auto deadline = asio::steady_timer::clock_type::now() +
                        std::chrono::nanoseconds(options_.greeting_timeout_ns);
  pause.expires_at(deadline);
  const absl::StatusOr<std::vector<Tcp::endpoint>> endpoints = co_await Resolve(dialer);
  if (!endpoints.ok()) co_return endpoints.status();
  asio::error_code ignored, error = asio::error::not_found;
  auto patience = kConnectPatience;
  for (std::size_t i = 0; i < endpoints->size();) {
    socket.close(ignored);
    socket.open((*endpoints)[i].protocol(), error);
    if (!error) rail::LeavePacing(socket.native_handle());
    socket.set_option(Tcp::no_delay(true), ignored);
    const auto until = std::min(deadline, asio::steady_timer::clock_type::now() + patience);
    pause.expires_at(until);
    const auto first =
        co_await (socket.async_connect((*endpoints)[i], kTuple) || pause.async_wait(kTuple));
    if (first.index() == 0) {
      error = std::get<0>(std::get<0>(first));
      if (!error) break;
      ++i;
      continue;
    }
    const bool is_cancelled = static_cast<bool>(std::get<0>(std::get<1>(first)));
    if (is_cancelled || until == deadline) {
      co_return rail::WithReason(absl::UnavailableError("no answer to connect in time"),
                                 LinkReason::kNoAnswer);
    }
    i = (i + 1) % endpoints->size();
    patience *= 2;
  }
  if (!error) co_return absl::OkStatus();
  const std::string text = absl::StrCat("cannot connect: ", error.message());
  if (error == asio::error::connection_refused) {
    co_return rail::WithReason(absl::NotFoundError(text), LinkReason::kConnectionRefused);
  }
  co_return rail::WithReason(absl::UnavailableError(text), ReasonOfError(error));
}

// Uses the addresses at which this node was the last to answer.
void TcpFabric::UpdateClaims(const NodeId& node) {
  link::NodeClaim claim = link::NodeClaim::kComes;
  for (const auto& dialer : dialers_) {
    if (dialer->known && !dialer->removed && dialer->peer == node) {
      claim = std::max(claim, ClaimOf(*dialer));
    }
  }
  links_.SetDialedAs(node, claim);
}

asio::awaitable<absl::Status> TcpFabric::Dial(Dialer& dialer) {
  Tcp::socket socket(io_);
  dialer.waits = Dialer::Waits::kForAnswer;
  const absl::Status connected = co_await Connect(socket, dialer);
  dialer.waits = Dialer::Waits::kNot;
  if (!connected.ok()) co_return connected;
  absl::StatusOr<Proved> proved = co_await ProveAsDialer(socket, options_);
  if (!proved.ok()) co_return proved.status();
  const absl::StatusOr<wire::VerdictCode> verdict = co_await ReceiveVerdict(socket, *proved);
  if (!verdict.ok()) co_return verdict.status();
  if (stopped_) co_return absl::AbortedError("stopping");
  if (proved->peer == options_.self.id) {
    co_return rail::WithReason(
        absl::UnavailableError("this address leads to this node, or to one with the same node id"),
        LinkReason::kOwnNode);
  }
  const NodeId former = dialer.known ? dialer.peer : proved->peer;
  if (former != proved->peer) {
    links_.OnGone(dialer.peer,
                  absl::StrCat("another node answers at ", dialer.address,
                               ": it was set up again, or is another machine"),
                  LinkReason::kOtherNode);
  }
  dialer.peer = proved->peer;
  dialer.path = proved->path;
  dialer.known = true;
  UpdateClaims(former);
  UpdateClaims(proved->peer);
  switch (*verdict) {
    case wire::VerdictCode::kAccepted: break;
    case wire::VerdictCode::kStopping:
      co_return rail::WithReason(absl::UnavailableError("it is stopping"),
                                 LinkReason::kPeerStopping);
    case wire::VerdictCode::kAlreadyLinked:
      co_return rail::WithReason(absl::AbortedError("already linked"),
                                 LinkReason::kAnotherConnection);
    case wire::VerdictCode::kTooManyNodes:
    case wire::VerdictCode::kTooManyOfAddress:
    case wire::VerdictCode::kTooManyConnections:
      co_return rail::WithReason(
          absl::UnavailableError(absl::StrCat("it refuses this node: ",
                                              TooManyText(*verdict, proved->limit, "there"))),
          LinkReason::kTooMany);
    default:
      co_return rail::WithReason(absl::UnavailableError("it refuses the connection"),
                                 LinkReason::kRefused);
  }
  asio::error_code ignored;
  const Links::Origin to{socket.remote_endpoint(ignored).address().to_string(), ClaimOf(dialer)};
  // Avoids a useless TLS handshake and further attempts soon.
  const wire::VerdictCode own = links_.Judge(proved->peer, proved->path, to);
  if (IsTooMany(own)) {
    if (own != wire::VerdictCode::kTooManyConnections && dialer.reason != LinkReason::kTooMany) {
      links_.CountRefused();
    }
    dialer.delay_ns = options_.reconnect_delay_max_ns;
    co_return rail::WithReason(absl::ResourceExhaustedError(
                                   absl::StrCat("node ", proved->peer.ToString(), " answers, but ",
                                                TooManyText(own, options_.nodes_max, "here"))),
                               LinkReason::kTooMany);
  }
  absl::StatusOr<Stream> stream = co_await Secure(socket, *proved);
  if (!stream.ok()) co_return stream.status();
  if (stopped_) co_return absl::AbortedError("stopping");
  co_return co_await JoinAsDialer(socket, *std::move(stream), *proved, to);
}

asio::awaitable<void> TcpFabric::TickLoop() {
  while (!stopped_) {
    const std::uint64_t now = platform::MonotonicNow();
    links_.OnTime(now);
    NoticeRailsGone();
    for (const auto& side : side_rails_) side->Turn(now);
    if (now >= next_proof_check_ns_) CheckProofs(now);
    tick_ns_ = NextDeadline();
    tick_.expires_after(std::chrono::nanoseconds(tick_ns_ > now ? tick_ns_ - now : 1));
    co_await tick_.async_wait(kTuple);
  }
}

std::uint64_t TcpFabric::NextDeadline() const {
  std::uint64_t next = links_.deadline_ns();
  for (const auto& side : side_rails_) next = std::min(next, side->deadline_ns());
  return next;
}

std::size_t TcpFabric::Poll() {
  const std::uint64_t now = tick_ns_ == 0 ? 0 : platform::MonotonicNow();
  std::size_t count = links_.Poll(now);
  const bool rail_gone = NoticeRailsGone();  // Before the turns in which sides act on it.
  for (const auto& side : side_rails_) count += side->Turn(now);
  const bool another = NoticeRailsGone();  // Sides act on it in their next turn.
  if (rail_gone || another || now >= checked_tick_ns_ + kCheckTickNs) {
    checked_tick_ns_ = now;
    if (NextDeadline() < tick_ns_) tick_.cancel();
  }
  return count + (another ? 1 : 0);
}

// Wakes the dialer whose rail has gone. A flapping link does not undo the back-off of others.
bool TcpFabric::NoticeRailsGone() {
  const std::uint64_t rails_gone = links_.rails_gone();
  if (std::exchange(rails_gone_, rails_gone) == rails_gone) return false;
  for (const auto& side : side_rails_) side->OnRailGone();
  for (const auto& dialer : dialers_) {
    if (dialer->waits == Dialer::Waits::kForRailToGo && !IsLinked(*dialer)) dialer->pause.cancel();
  }
  return true;
}

bool TcpFabric::PrepareToSleep() {
  if (!links_.PrepareToSleep()) return false;
  if (tick_ns_ != 0 && (NextDeadline() < tick_ns_ || links_.MayTick(platform::MonotonicNow()))) {
    tick_.cancel();
  }
  return true;
}

void TcpFabric::Stop() {
  if (std::exchange(stopped_, true)) return;
  asio::error_code ignored;
  for (const auto& listener : listeners_) listener->acceptor.close(ignored);
  for (const auto& dialer : dialers_) dialer->pause.cancel();
  tick_.cancel();
  interfaces_pause_.cancel();
  watches_.Retire();  // No handler runs from here on.
  SendTheRest();
  links_.FinishRails();
  links_.StopRails();
}

// The last messages, such as why this daemon stops, are queued behind all others.
void TcpFabric::SendTheRest() {
  const std::uint64_t deadline = platform::MonotonicNow() + kStopNs;
  links_.FlushAcknowledgements();
  for (;;) {
    const bool all_sent = links_.SendRemaining();
    const std::uint64_t now = platform::MonotonicNow();
    if (all_sent || now >= deadline) return;
    const bool may_sleep = links_.PrepareRailsToSleep();
    pollfd bell = {bell_.descriptor(), POLLIN, 0};
    if (may_sleep) ::poll(&bell, 1, static_cast<int>((deadline - now) / 1'000'000 + 1));
    bell_.Drain();
    links_.WakeUp();
  }
}

}  // namespace mlxcomm::fabric
