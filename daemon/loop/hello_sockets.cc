#include "daemon/loop/hello_sockets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"

namespace mlxcomm {
namespace {

using Place = platform::MulticastSocket::Place;

}  // namespace

HelloSockets::~HelloSockets() {
  Stop();
  if (interfaces_watch_.is_open()) interfaces_watch_.release();
}

void HelloSockets::Start() {
  absl::StatusOr<platform::InterfaceWatch> watch = platform::InterfaceWatch::Create();
  if (watch.ok()) {
    interfaces_.emplace(*std::move(watch));
    interfaces_watch_.assign(interfaces_->descriptor());
    WatchInterfaces();
  } else {
    spdlog::warn("{}; interfaces are checked every {} s", std::string(watch.status().message()),
                 kRefreshNs / 1'000'000'000);
  }
  Refresh();
  SetTimer();
}

void HelloSockets::Stop() {
  if (std::exchange(stopped_, true)) return;
  timer_.cancel();
  interfaces_pause_.cancel();
  ports_.clear();
}

void HelloSockets::WatchInterfaces() {
  interfaces_watch_.async_wait(asio::posix::descriptor_base::wait_read,
                               [this](const asio::error_code& error) {
                                 if (error || stopped_) return;
                                 interfaces_->Read();
                                 Refresh();
                                 SetTimer();
                                 interfaces_pause_.expires_after(platform::InterfaceWatch::kPause);
                                 interfaces_pause_.async_wait([this](const asio::error_code& over) {
                                   if (!over && !stopped_) WatchInterfaces();
                                 });
                               });
}

// Opens and closes sockets to match the present interfaces.
void HelloSockets::Refresh() {
  const std::uint64_t now = platform::MonotonicNow();
  next_refresh_ns_ = now + kRefreshNs;
  const absl::StatusOr<std::vector<platform::NetworkInterface>> all = platform::ListInterfaces();
  if (!all.ok()) {
    if (!std::exchange(reported_blind_, true)) {
      spdlog::error("{}: discovery of neighbours is suspended",
                    std::string(all.status().message()));
    }
    next_refresh_ns_ = now + kRetryNs;
    return;
  }
  reported_blind_ = false;
  left_out_.clear();
  std::map<std::string, Place> wanted;
  for (const platform::NetworkInterface& one : *all) {
    discovery::InterfaceFault why = discovery::WhyNotUsed(one, options_.interfaces);
    if (!why.IsNone()) {
      left_out_[one.name] = std::move(why);
      continue;
    }
    wanted[one.name] = {one.name,
                        one.index,
                        *platform::LinkLocalAddressOf(one),
                        wire::kDiscoveryGroup,
                        options_.port,
                        sizeof(wire::DiscoveryHello),
                        std::bit_cast<std::array<std::uint8_t, 8>>(wire::kDiscoveryMagic)};
  }
  std::vector<std::string> gone;
  for (const auto& [name, port] : ports_) {
    const auto found = wanted.find(name);
    const Place& place = port->place;
    if (found == wanted.end() || found->second.index != place.index ||
        found->second.source != place.source)
      gone.push_back(name);
  }
  for (const std::string& name : gone) Close(name);
  for (const auto& [name, place] : wanted) {
    if (ports_.contains(name)) continue;
    const absl::Status opened = Open(place);
    if (opened.ok()) continue;
    left_out_[name] = {v1::DiscoveryReason::not_opened, std::string(opened.message())};
    next_refresh_ns_ = now + kRetryNs;
  }
}

// Prefers the port number of the hellos, so that a firewall needs one rule.
absl::StatusOr<std::uint16_t> HelloSockets::Listen(const Place& place, std::string& address) {
  absl::Status why;
  for (const std::uint16_t port : {options_.port, std::uint16_t{0}}) {
    address = discovery::AddressText(place.source, place.interface, port);
    const absl::StatusOr<std::uint16_t> got = fabric_.AddListener(address);
    if (got.ok()) return got;
    why = got.status();
  }
  return why;
}

absl::Status HelloSockets::Open(const Place& place) {
  if (ports_.size() >= discovery::Discovery::kInterfacesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", discovery::Discovery::kInterfacesMax, " interfaces"));
  }
  absl::StatusOr<platform::MulticastSocket> socket = platform::MulticastSocket::Open(place);
  if (!socket.ok()) return socket.status();
  std::string listening;
  const absl::StatusOr<std::uint16_t> tcp_port = Listen(place, listening);
  if (!tcp_port.ok()) return tcp_port.status();
  std::unique_ptr<Port>& port = ports_[place.interface];
  port = std::make_unique<Port>(io_, *std::move(socket));
  port->number = ++opened_;
  port->place = place;
  port->listening = std::move(listening);
  spdlog::info("looking for neighbours on {}, listening on {}", place.interface,
               discovery::AddressText(place.source, place.interface, *tcp_port));
  WatchSocket(place.interface);
  node_.OnInterfaceUp({place.interface, place.source, *tcp_port});
  return absl::OkStatus();
}

void HelloSockets::Close(const std::string& interface) {
  const auto found = ports_.find(interface);
  fabric_.RemoveListener(found->second->listening);
  node_.OnInterfaceDown(interface);
  ports_.erase(found);
}

void HelloSockets::WatchSocket(const std::string& interface) {
  Port& port = *ports_.at(interface);
  port.watch.async_wait(asio::posix::descriptor_base::wait_read,
                        [this, interface, number = port.number](const asio::error_code& error) {
                          if (error || stopped_) return;
                          const auto found = ports_.find(interface);
                          if (found == ports_.end() || found->second->number != number) return;
                          Read(interface, *found->second, platform::MonotonicNow());
                          if (found->second->rests_until_ns == 0) WatchSocket(interface);
                          SetTimer();
                        });
}

void HelloSockets::Read(const std::string& interface, Port& port, std::uint64_t now_ns) {
  // One byte more than a hello, to detect longer datagrams.
  std::array<std::uint8_t, sizeof(wire::DiscoveryHello) + 1> bytes;
  std::uint32_t read = 0;
  for (; read < kReadAtOnce; ++read) {
    const auto received = port.socket.Receive(bytes);
    if (!received.has_value()) break;
    if (!received->is_here) continue;
    node_.OnHello(interface, received->from, std::span(bytes).first(received->bytes));
  }
  const bool is_often = now_ns - std::exchange(port.read_ns, now_ns) < kSeldomNs;
  if (read < kReadAtOnce && !is_often) return;
  const auto resting = std::ranges::count_if(
      ports_, [](const auto& one) { return one.second->rests_until_ns != 0; });
  port.rests_until_ns =
      platform::MonotonicNow() + kRestNs * static_cast<std::uint64_t>(resting + 1);
}

void HelloSockets::WakeRested(std::uint64_t now_ns) {
  for (const auto& [name, port] : ports_) {
    if (port->rests_until_ns == 0 || now_ns < port->rests_until_ns) continue;
    port->rests_until_ns = 0;
    WatchSocket(name);
  }
}

void HelloSockets::SetTimer() {
  if (stopped_) return;
  std::uint64_t next = next_refresh_ns_;
  for (const auto& [name, port] : ports_) {
    if (port->rests_until_ns != 0) next = std::min(next, port->rests_until_ns);
  }
  if (next == timer_ns_) return;
  timer_ns_ = next;
  const std::uint64_t now = platform::MonotonicNow();
  timer_.expires_after(std::chrono::nanoseconds(next > now ? next - now : 1));
  timer_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled && !stopped_) OnTimer();
  });
}

void HelloSockets::OnTimer() {
  timer_ns_ = discovery::Discovery::kNever;
  const std::uint64_t now = platform::MonotonicNow();
  WakeRested(now);
  if (now >= next_refresh_ns_) Refresh();
  SetTimer();
}

// May be called while the interface is being opened, and after it is gone.
void HelloSockets::SendHello(const std::string& interface, const wire::DiscoveryHello& hello) {
  const auto found = ports_.find(interface);
  if (found == ports_.end()) return;
  Port& port = *found->second;
  const absl::Status sent =
      port.socket.Send({reinterpret_cast<const std::uint8_t*>(&hello), sizeof hello});
  const std::string text(sent.message());
  if (text == port.fault.text) return;
  port.fault = {};
  if (sent.ok()) return;
  const bool no_route = absl::IsFailedPrecondition(sent);
  port.fault = {no_route ? v1::DiscoveryReason::no_route_to_host : v1::DiscoveryReason::not_sent,
                text};
  spdlog::warn("discovery: {}", text);
}

void HelloSockets::Dial(const std::string& address) {
  spdlog::info("found a neighbour at {}", address);
  if (const absl::Status added = fabric_.AddPeer(address); !added.ok()) {
    spdlog::warn("cannot dial {}: {}", address, std::string(added.message()));
  }
}

void HelloSockets::Describe(v1::DiscoveryStatus& status) const {
  std::map<std::string, discovery::InterfaceFault> faults = left_out_;
  std::uint64_t unread = 0;
  for (const auto& [name, port] : ports_) {
    faults[name] = port->fault;
    unread += port->socket.CountUnread();
  }
  status.set_unread(unread);
  for (const auto& [name, fault] : faults) {
    v1::DiscoveryInterface& reported = *status.add_interfaces();
    reported.set_name(name);
    reported.set_used(ports_.contains(name));
    reported.set_reason(fault.reason);
    reported.set_detail(fault.text);
  }
}

}  // namespace mlxcomm
