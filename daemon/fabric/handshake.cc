#include "daemon/fabric/handshake.h"

#include <cstddef>
#include <span>

#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "absl/strings/str_cat.h"

namespace mlxcomm::fabric {
namespace {

using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.

constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);

absl::Status Ended(const asio::error_code& error) {
  return absl::UnavailableError(absl::StrCat("the connection ended: ", error.message()));
}

template <typename Message>
asio::awaitable<absl::Status> Receive(tcp::socket& socket, const FabricOptions& options,
                                      Message& message) {
  asio::steady_timer deadline(socket.get_executor(),
                              std::chrono::nanoseconds(options.greeting_timeout_ns));
  const auto first = co_await (
      asio::async_read(socket, asio::buffer(&message, sizeof message), kTuple) ||
      deadline.async_wait(kTuple));
  if (first.index() == 1) co_return absl::UnavailableError("no answer in time");
  const asio::error_code error = std::get<0>(std::get<0>(first));
  co_return error ? Ended(error) : absl::OkStatus();
}

// Small enough for any socket buffer, so it needs no deadline of its own.
template <typename Message>
asio::awaitable<absl::Status> Transmit(tcp::socket& socket, const Message& message) {
  auto [error, bytes] =
      co_await asio::async_write(socket, asio::buffer(&message, sizeof message), kTuple);
  co_return error ? Ended(error) : absl::OkStatus();
}

template <typename Message>
std::span<const std::uint8_t> BytesOf(const Message& message, std::size_t bytes) {
  return {reinterpret_cast<const std::uint8_t*>(&message), bytes};
}

wire::Mac ProofMac(const FabricOptions& options, const Proved& proved, Role sender,
                   const wire::Proof& proof) {
  return MakeMac(options.key, sender, proved.dialer, proved.acceptor,
                 BytesOf(proof, offsetof(wire::Proof, mac)));
}

wire::Proof MakeProof(const FabricOptions& options, const Proved& proved) {
  wire::Proof proof{};
  proof.node_id = options.self.id.bytes;
  proof.mac = ProofMac(options, proved, proved.own_role, proof);
  return proof;
}

absl::Status CheckProof(const FabricOptions& options, Proved& proved, const wire::Proof& proof) {
  const Role theirs = proved.own_role == Role::kDialer ? Role::kAcceptor : Role::kDialer;
  if (!EqualInConstantTime(proof.mac, ProofMac(options, proved, theirs, proof))) {
    return absl::PermissionDeniedError("it does not hold this cluster's key");
  }
  proved.peer.bytes = proof.node_id;
  return absl::OkStatus();
}

}  // namespace

asio::awaitable<absl::StatusOr<Proved>> ProveAsDialer(tcp::socket& socket,
                                                      const FabricOptions& options) {
  Proved proved;
  proved.own_role = Role::kDialer;
  proved.dialer = MakeGreeting(options.cluster);
  absl::Status status = co_await Transmit(socket, proved.dialer);
  if (status.ok()) status = co_await Receive(socket, options, proved.acceptor);
  if (!status.ok()) co_return status;
  if (const std::string_view wrong = CheckGreeting(proved.acceptor, options.cluster);
      !wrong.empty()) {
    co_return absl::PermissionDeniedError(std::string(wrong));
  }
  status = co_await Transmit(socket, MakeProof(options, proved));
  if (!status.ok()) co_return status;
  co_return proved;
}

asio::awaitable<absl::StatusOr<Proved>> CheckDialer(tcp::socket& socket,
                                                    const FabricOptions& options) {
  Proved proved;
  proved.own_role = Role::kAcceptor;
  absl::Status status = co_await Receive(socket, options, proved.dialer);
  if (!status.ok()) co_return status;
  if (const std::string_view wrong = CheckGreeting(proved.dialer, options.cluster);
      !wrong.empty()) {
    co_return absl::PermissionDeniedError(std::string(wrong));
  }
  proved.acceptor = MakeGreeting(options.cluster);
  wire::Proof proof{};
  status = co_await Transmit(socket, proved.acceptor);
  if (status.ok()) status = co_await Receive(socket, options, proof);
  if (status.ok()) status = CheckProof(options, proved, proof);
  if (!status.ok()) co_return status;
  co_return proved;
}

asio::awaitable<absl::Status> SendVerdict(tcp::socket& socket, const FabricOptions& options,
                                          const Proved& proved, wire::VerdictCode verdict) {
  absl::Status status = co_await Transmit(socket, MakeProof(options, proved));
  if (status.ok()) status = co_await Transmit(socket, wire::Verdict{verdict, 0});
  co_return status;
}

asio::awaitable<absl::StatusOr<wire::VerdictCode>> ReceiveVerdict(tcp::socket& socket,
                                                                  const FabricOptions& options,
                                                                  Proved& proved) {
  wire::Proof proof{};
  wire::Verdict verdict{};
  absl::Status status = co_await Receive(socket, options, proof);
  if (!status.ok()) {
    co_return absl::UnavailableError(absl::StrCat(
        std::string(status.message()), " (does it hold the same key? look at its log)"));
  }
  status = CheckProof(options, proved, proof);
  if (status.ok()) status = co_await Receive(socket, options, verdict);
  if (!status.ok()) co_return status;
  co_return verdict.code;
}

asio::awaitable<absl::StatusOr<wire::Introduction>> Introduce(tcp::socket& socket,
                                                              const FabricOptions& options,
                                                              const Proved& proved,
                                                              wire::Introduction own) {
  constexpr std::size_t kCovered = offsetof(wire::Introduction, mac);
  own.mac = MakeMac(options.key, proved.own_role, proved.dialer, proved.acceptor,
                    BytesOf(own, kCovered));
  wire::Introduction theirs{};
  absl::Status status = co_await Transmit(socket, own);
  if (status.ok()) status = co_await Receive(socket, options, theirs);
  if (!status.ok()) co_return status;
  const Role sender = proved.own_role == Role::kDialer ? Role::kAcceptor : Role::kDialer;
  const wire::Mac expected = MakeMac(options.key, sender, proved.dialer, proved.acceptor,
                                     BytesOf(theirs, kCovered));
  if (!EqualInConstantTime(theirs.mac, expected) || theirs.session == 0) {
    co_return absl::PermissionDeniedError("its introduction is not proved");
  }
  co_return theirs;
}

}  // namespace mlxcomm::fabric
