// Discovery on this machine: a multicast socket and a listening address on each interface
// that may be used, the clock, and the fabric, which dials what is found.
//
//   interfaces change ─▶ look ─▶ open: listen at the link-local address, multicast socket
//                                └ cannot (an address of just now) ─▶ again in 250 ms
//   datagrams ─▶ Discovery ─▶ hellos out; Fabric::AddPeer, RemovePeer
//
// Of each interface only so many datagrams are read at a time (kReadAtOnce) and in each
// tenth of a second (kReadPerSlice); what else comes waits in the kernel, which has a bound, too.
//
// Owner: Daemon. Thread: the loop's; Stop after it has ended. Memory: that of Discovery, and
// two sockets an interface.
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
#include "daemon/cluster/discovery.h"
#include "daemon/platform/interface_watch.h"
#include "daemon/platform/multicast_socket.h"
#include "daemon/transport/tcp/tcp_fabric.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::cluster {

struct HelloSocketOptions {
  DiscoveryOptions discovery;
  std::vector<std::string> interfaces;  // Patterns; none: as WhyNotUsed has it.
  std::uint16_t port = 7470;
};

class HelloSockets final : private DiscoveryPort {
 public:
  HelloSockets(asio::io_context& io, HelloSocketOptions options, fabric::TcpFabric& fabric);
  ~HelloSockets() override;

  void Start();
  void SetKeys(const std::vector<DerivedKey>& keys) { discovery_.SetKeys(keys); }
  void Stop();  // No hellos any more; the fabric keeps what it has. Idempotent.

  void Describe(v1::DiscoveryStatus& status) const;
  // Hellos have come over this pair of interfaces.
  bool Knows(const NodeId& node, const std::string& local_interface,
             const std::string& remote_interface) const {
    return discovery_.Knows(node, local_interface, remote_interface);
  }

 private:
  static constexpr std::uint32_t kReadAtOnce = 32;
  static constexpr std::uint32_t kReadPerSlice = 128;
  static constexpr std::uint64_t kSliceNs = 100'000'000;
  static constexpr std::uint64_t kTryAgainNs = 250'000'000;
  // Where the system tells of no changes, and to be sure.
  static constexpr std::uint64_t kLookAgainNs = 30'000'000'000;

  struct Port {
    Port(asio::io_context& io, platform::MulticastSocket opened)
        : socket(std::move(opened)), watch(io, socket.descriptor()) {}
    ~Port() { watch.release(); }  // The socket owns the descriptor.
    platform::MulticastSocket socket;
    asio::posix::stream_descriptor watch;
    std::uint64_t number = 0;  // Which opening this is.
    platform::MulticastSocket::Place place;
    std::string listening;  // As it was added to the fabric.
    std::uint32_t read_in_slice = 0;
    std::uint64_t slice_ns = 0;  // When it began.
    bool rests = false;          // Has read enough in it.
    InterfaceFault fault;        // Why nothing could be sent.
  };

  // DiscoveryPort
  void SendHello(const std::string& interface, const wire::DiscoveryHello& hello) override;
  void Dial(const std::string& address) override;
  void StopDialing(const std::string& address) override;

  void Look();
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
  Discovery discovery_;
  std::optional<platform::InterfaceWatch> interfaces_;
  asio::posix::stream_descriptor interfaces_watch_;
  asio::steady_timer interfaces_pause_;
  asio::steady_timer timer_;
  std::uint64_t timer_ns_ = Discovery::kNever;  // What it is set to.
  std::uint64_t next_look_ns_ = 0;
  bool told_blind_ = false;  // That the interfaces cannot be listed.
  std::uint64_t opened_ = 0;
  std::map<std::string, std::unique_ptr<Port>> ports_;
  std::map<std::string, InterfaceFault> left_out_;  // Interfaces, and why.
  bool stopped_ = false;
};

}  // namespace mlxcomm::cluster
