// Prepares a new connection for its first frame (wire/hello.h).
//
//   Prove.. / Check.. ─▶ ..Verdict ─▶ Secure ─▶ ..Introduction, through the stream
//
// Coroutines on the loop's io_context. One deadline covers all of it, however slowly the peer
// sends. Thread: the loop's. Memory: fixed-size messages; TLS buffers exist only once the key is
// proved.
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

struct Proved {
  rail::Role own_role = rail::Role::kDialer;
  wire::Greeting dialer{};
  wire::Greeting acceptor{};
  wire::Proof dialers_proof{};
  wire::Proof acceptors_proof{};
  wire::VersionRange versions{};  // The peer's.
  std::optional<ClusterKey> key;  // Held by both sides.
  DerivedKey proof_key;
  NodeId peer;
  rail::RailPath path;      // The remote end is set once the peer is proved.
  std::uint32_t limit = 0;  // Set by verdicts that name one.
  asio::steady_timer::time_point deadline;
};

// PERMISSION_DENIED: the peer is a stranger. UNAVAILABLE: the connection ended or took too long.
asio::awaitable<absl::StatusOr<Proved>> ProveAsDialer(asio::ip::tcp::socket& socket,
                                                      const link::FabricOptions& options);
// Checks the dialer's proof without answering it.
asio::awaitable<absl::StatusOr<Proved>> CheckDialer(asio::ip::tcp::socket& socket,
                                                    const link::FabricOptions& options);
// SendVerdict also sends the acceptor's proof, which ReceiveVerdict checks.
asio::awaitable<absl::Status> SendVerdict(asio::ip::tcp::socket& socket,
                                          const link::FabricOptions& options, Proved& proved,
                                          wire::VerdictCode verdict);
asio::awaitable<absl::StatusOr<wire::VerdictCode>> ReceiveVerdict(asio::ip::tcp::socket& socket,
                                                                  Proved& proved);
// All later bytes pass through the stream. PERMISSION_DENIED: the key is wrong, or messages were
// changed.
asio::awaitable<absl::StatusOr<std::unique_ptr<rail::ByteStream>>> Secure(
    asio::ip::tcp::socket& socket, const Proved& proved);
// The dialer introduces itself first, and so states that it has no rail on this path. `own` lacks
// only its mac.
asio::awaitable<absl::Status> SendIntroduction(asio::ip::tcp::socket& socket,
                                               rail::ByteStream& stream, const Proved& proved,
                                               wire::Introduction own);
asio::awaitable<absl::StatusOr<wire::Introduction>> ReceiveIntroduction(
    asio::ip::tcp::socket& socket, rail::ByteStream& stream, const Proved& proved);

}  // namespace mlxcomm::fabric
