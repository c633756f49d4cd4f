// What happens on a new connection before the first frame: the proof of the key,
// the acceptor's verdict, TLS where either side wants it, the introductions (wire/hello.h).
//
//   Prove.. / Check.. ─▶ ..Verdict ─▶ Secure ─▶ ..Introduction, through the stream
//
// Owner: functions, coroutines on the loop's io_context. All of it has one deadline,
// however slowly the other side dribbles. Thread: the loop's. Memory: fixed-size messages; TLS
// has its buffers only once the key is proved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/fabric/authentication.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/rail/byte_stream.h"
#include "daemon/rail/rail_path.h"

namespace mlxcomm::fabric {

// What both sides have proved.
struct Proved {
  rail::Role own_role = rail::Role::kDialer;
  wire::Greeting dialer{};
  wire::Greeting acceptor{};
  wire::Proof dialers_proof{};
  wire::Proof acceptors_proof{};
  wire::VersionRange versions{};  // Of the protocol, that the other side speaks.
  std::optional<ClusterKey> key;  // Of those of this side, the one that both have.
  DerivedKey proof_key;
  NodeId peer;
  rail::RailPath path;      // The remote end once the peer is proved.
  std::uint32_t limit = 0;  // With a verdict that names one.
  asio::steady_timer::time_point deadline;
};

// PERMISSION_DENIED: a stranger. UNAVAILABLE: the connection ended or took too long.
asio::awaitable<absl::StatusOr<Proved>> ProveAsDialer(asio::ip::tcp::socket& socket,
                                                      const link::FabricOptions& options);
// Checks the dialer's proof; says nothing yet.
asio::awaitable<absl::StatusOr<Proved>> CheckDialer(asio::ip::tcp::socket& socket,
                                                    const link::FabricOptions& options);
// The acceptor's own proof and its verdict; the dialer's reading of the verdict.
asio::awaitable<absl::Status> SendVerdict(asio::ip::tcp::socket& socket,
                                          const link::FabricOptions& options, Proved& proved,
                                          wire::VerdictCode verdict);
asio::awaitable<absl::StatusOr<wire::VerdictCode>> ReceiveVerdict(asio::ip::tcp::socket& socket,
                                                                  Proved& proved);
// What comes from here on goes through. PERMISSION_DENIED: the other side does not hold the
// key, or somebody in between has changed what was said.
asio::awaitable<absl::StatusOr<std::unique_ptr<rail::ByteStream>>> Secure(
    asio::ip::tcp::socket& socket, const Proved& proved);
// The dialer introduces itself first: by that it says that it has no other connection.
// `own` lacks only its mac.
asio::awaitable<absl::Status> SendIntroduction(asio::ip::tcp::socket& socket,
                                               rail::ByteStream& stream, const Proved& proved,
                                               wire::Introduction own);
asio::awaitable<absl::StatusOr<wire::Introduction>> ReceiveIntroduction(
    asio::ip::tcp::socket& socket, rail::ByteStream& stream, const Proved& proved);

}  // namespace mlxcomm::fabric
