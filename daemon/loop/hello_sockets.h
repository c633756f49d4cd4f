// The sockets of discovery: a multicast socket and a listening address on each usable interface.
//
//   interfaces change ─▶ refresh ─▶ open: listen at its link-local address, multicast ─▶ node
//                                   └ fails (a new address) ─▶ again in 250 ms
//   datagrams ─▶ node ─▶ hellos out
//
// An interface that receives datagrams often rests in between, so that payload moves; all together
// read at most 128,000 a second. Owner: Daemon. Thread: the loop's; Stop after it has ended.
// Memory: two sockets for each interface.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "absl/status/status.h"
#include "daemon/discovery/discovery.h"
#include "daemon/discovery/interface_choice.h"
#include "daemon/fabric/tcp_fabric.h"
#include "daemon/node/node.h"
#include "daemon/platform/interface_watch.h"
#include "daemon/platform/multicast_socket.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

struct HelloSocketOptions {
  std::vector<std::string> interfaces;  // Patterns; empty: WhyNotUsed decides.
  std::uint16_t port = 7470;
};

class HelloSockets final : private discovery::DiscoveryPort {
 public:
  HelloSockets(asio::io_context& io, HelloSocketOptions options, fabric::TcpFabric& fabric,
               node::Node& node)
      : io_(io),
        options_(std::move(options)),
        fabric_(fabric),
        node_(node),
        interfaces_watch_(io),
        interfaces_pause_(io),
        timer_(io) {
    node_.Discover(*this);
  }
  ~HelloSockets() override;

  void Start();
  void Stop();  // Ends the hellos; the fabric keeps its connections. Idempotent.

  void Describe(v1::DiscoveryStatus& status) const;

 private:
  static constexpr std::uint32_t kReadAtOnce = 64;
  static constexpr std::uint64_t kRestNs = 500'000;  // Counted once for each resting interface.
  static constexpr std::uint64_t kSeldomNs = 5'000'000;
  static constexpr std::uint64_t kRetryNs = 250'000'000;
  // Also catches changes that the system did not report.
  static constexpr std::uint64_t kRefreshNs = 30'000'000'000;

  struct Port {
    Port(asio::io_context& io, platform::MulticastSocket opened)
        : socket(std::move(opened)), watch(io, socket.descriptor()) {}
    ~Port() { watch.release(); }  // The socket owns the descriptor.
    platform::MulticastSocket socket;
    asio::posix::stream_descriptor watch;
    std::uint64_t number = 0;  // Distinguishes ports that were opened for one name.
    platform::MulticastSocket::Place place;
    std::string listening;  // The fabric was given this address.
    std::uint64_t read_ns = 0;
    std::uint64_t rests_until_ns = 0;  // 0 if not resting.
    discovery::InterfaceFault fault;   // Why sending failed.
  };

  // DiscoveryPort
  void SendHello(const std::string& interface, const wire::DiscoveryHello& hello) override;
  void Dial(const std::string& address) override;
  void StopDialing(const std::string& address) override { fabric_.RemovePeer(address); }

  void Refresh();
  void WatchInterfaces();
  absl::Status Open(const platform::MulticastSocket::Place& place);
  void Close(const std::string& interface);
  absl::StatusOr<std::uint16_t> Listen(const platform::MulticastSocket::Place& place,
                                       std::string& address);
  void WatchSocket(const std::string& interface);
  void Read(const std::string& interface, Port& port, std::uint64_t now_ns);
  void WakeRested(std::uint64_t now_ns);
  void SetTimer();
  void OnTimer();

  asio::io_context& io_;
  HelloSocketOptions options_;
  fabric::TcpFabric& fabric_;
  node::Node& node_;
  std::optional<platform::InterfaceWatch> interfaces_;
  asio::posix::stream_descriptor interfaces_watch_;
  asio::steady_timer interfaces_pause_;
  asio::steady_timer timer_;
  std::uint64_t timer_ns_ = discovery::Discovery::kNever;
  std::uint64_t next_refresh_ns_ = 0;
  bool reported_blind_ = false;  // The failure to list interfaces was reported.
  std::uint64_t opened_ = 0;
  std::map<std::string, std::unique_ptr<Port>> ports_;
  std::map<std::string, discovery::InterfaceFault> left_out_;  // Unused interfaces.
  bool stopped_ = false;
};

}  // namespace mlxcomm
