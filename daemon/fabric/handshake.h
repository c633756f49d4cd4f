// What happens on a new connection before the first frame: the proof of the key,
// the acceptor's verdict, the introductions (wire/hello.h).
//
// Owner: functions, coroutines on the engine's io_context. All of it has one deadline,
// however slowly the other side dribbles. Thread: engine. Memory: fixed-size messages.
#pragma once

#include <cstdint>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/fabric/authentication.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/rail_path.h"

namespace mlxcomm::fabric {

// What both sides have proved.
struct Proved {
  Role own_role = Role::kDialer;
  wire::Greeting dialer;
  wire::Greeting acceptor;
  NodeId peer;
  RailPath path;  // The remote end once the peer is proved.
  asio::steady_timer::time_point deadline;
};

// PERMISSION_DENIED: a stranger. UNAVAILABLE: the connection ended or took too long.
asio::awaitable<absl::StatusOr<Proved>> ProveAsDialer(asio::ip::tcp::socket& socket,
                                                      const FabricOptions& options);
// Checks the dialer's proof; says nothing yet.
asio::awaitable<absl::StatusOr<Proved>> CheckDialer(asio::ip::tcp::socket& socket,
                                                    const FabricOptions& options);
// The acceptor's own proof and its verdict; the dialer's reading of the verdict.
asio::awaitable<absl::Status> SendVerdict(asio::ip::tcp::socket& socket,
                                          const FabricOptions& options, const Proved& proved,
                                          wire::VerdictCode verdict);
asio::awaitable<absl::StatusOr<wire::VerdictCode>> ReceiveVerdict(asio::ip::tcp::socket& socket,
                                                                  const FabricOptions& options,
                                                                  Proved& proved);
// The dialer introduces itself first: by that it says that it has no other connection.
// `own` lacks only its mac.
asio::awaitable<absl::Status> SendIntroduction(asio::ip::tcp::socket& socket,
                                               const FabricOptions& options, const Proved& proved,
                                               wire::Introduction own);
asio::awaitable<absl::StatusOr<wire::Introduction>> ReceiveIntroduction(
    asio::ip::tcp::socket& socket, const FabricOptions& options, const Proved& proved);

}  // namespace mlxcomm::fabric
