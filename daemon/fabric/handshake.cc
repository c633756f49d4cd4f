#include "daemon/fabric/handshake.h"

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/interfaces.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::fabric {
namespace {

using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.

constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);

absl::Status Ended(const asio::error_code& error) {
  return absl::UnavailableError(absl::StrCat("the connection ended: ", error.message()));
}

template <typename Operation>
asio::awaitable<absl::Status> WithDeadline(tcp::socket& socket, const Proved& proved,
                                           Operation operation) {
  asio::steady_timer deadline(socket.get_executor(), proved.deadline);
  const auto first = co_await (std::move(operation) || deadline.async_wait(kTuple));
  if (first.index() == 1) co_return absl::UnavailableError("no answer in time");
  const asio::error_code error = std::get<0>(std::get<0>(first));
  co_return error ? Ended(error) : absl::OkStatus();
}

template <typename Message>
asio::awaitable<absl::Status> Receive(tcp::socket& socket, const Proved& proved,
                                      Message& message) {
  co_return co_await WithDeadline(
      socket, proved, asio::async_read(socket, asio::buffer(&message, sizeof message), kTuple));
}

template <typename Message>
asio::awaitable<absl::Status> Transmit(tcp::socket& socket, const Proved& proved,
                                       const Message& message) {
  co_return co_await WithDeadline(
      socket, proved, asio::async_write(socket, asio::buffer(&message, sizeof message), kTuple));
}

asio::steady_timer::time_point DeadlineFromNow(const FabricOptions& options) {
  return asio::steady_timer::clock_type::now() +
         std::chrono::nanoseconds(options.greeting_timeout_ns);
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

wire::Mac IntroductionMac(const FabricOptions& options, const Proved& proved, Role sender,
                          const wire::Introduction& introduction) {
  return MakeMac(options.key, sender, proved.dialer, proved.acceptor,
                 BytesOf(introduction, offsetof(wire::Introduction, mac)));
}

// On which of this machine's interfaces the connection lies.
absl::Status FindOwnInterface(const tcp::socket& socket, Proved& proved) {
  asio::error_code error;
  const tcp::endpoint local = socket.local_endpoint(error);
  if (error) return Ended(error);
  const absl::StatusOr<std::string> name = platform::InterfaceOf(local.data());
  if (!name.ok()) return absl::UnavailableError(name.status().message());
  proved.path.local = name->substr(0, wire::kInterfaceBytesMax - 1);
  return absl::OkStatus();
}

wire::Proof MakeProof(const FabricOptions& options, const Proved& proved) {
  wire::Proof proof{};
  proof.node_id = options.self.id.bytes;
  PutText(proved.path.local, proof.interface_name);
  proof.mac = ProofMac(options, proved, proved.own_role, proof);
  return proof;
}

absl::Status CheckProof(const FabricOptions& options, Proved& proved, const wire::Proof& proof) {
  const Role theirs = proved.own_role == Role::kDialer ? Role::kAcceptor : Role::kDialer;
  if (!EqualInConstantTime(proof.mac, ProofMac(options, proved, theirs, proof))) {
    return absl::PermissionDeniedError("it does not hold this cluster's key");
  }
  proved.peer.bytes = proof.node_id;
  proved.path.remote = MakePrintable(TextOf(proof.interface_name));
  if (proved.path.remote.empty()) {
    return absl::PermissionDeniedError("it does not say on which interface it is");
  }
  return absl::OkStatus();
}

}  // namespace

asio::awaitable<absl::StatusOr<Proved>> ProveAsDialer(tcp::socket& socket,
                                                      const FabricOptions& options) {
  Proved proved;
  proved.own_role = Role::kDialer;
  proved.deadline = DeadlineFromNow(options);
  proved.dialer = MakeGreeting(options.cluster);
  absl::Status status = FindOwnInterface(socket, proved);
  if (status.ok()) status = co_await Transmit(socket, proved, proved.dialer);
  if (status.ok()) status = co_await Receive(socket, proved, proved.acceptor);
  if (!status.ok()) co_return status;
  if (const std::string_view wrong = CheckGreeting(proved.acceptor, options.cluster);
      !wrong.empty()) {
    co_return absl::PermissionDeniedError(std::string(wrong));
  }
  status = co_await Transmit(socket, proved, MakeProof(options, proved));
  if (!status.ok()) co_return status;
  co_return proved;
}

asio::awaitable<absl::StatusOr<Proved>> CheckDialer(tcp::socket& socket,
                                                    const FabricOptions& options) {
  Proved proved;
  proved.own_role = Role::kAcceptor;
  proved.deadline = DeadlineFromNow(options);
  absl::Status status = co_await Receive(socket, proved, proved.dialer);
  if (!status.ok()) co_return status;
  if (const std::string_view wrong = CheckGreeting(proved.dialer, options.cluster);
      !wrong.empty()) {
    co_return absl::PermissionDeniedError(std::string(wrong));
  }
  proved.acceptor = MakeGreeting(options.cluster);
  wire::Proof proof{};
  status = co_await Transmit(socket, proved, proved.acceptor);
  if (status.ok()) status = co_await Receive(socket, proved, proof);
  if (status.ok()) status = CheckProof(options, proved, proof);
  if (status.ok()) status = FindOwnInterface(socket, proved);
  if (!status.ok()) co_return status;
  co_return proved;
}

asio::awaitable<absl::Status> SendVerdict(tcp::socket& socket, const FabricOptions& options,
                                          const Proved& proved, wire::VerdictCode verdict) {
  absl::Status status = co_await Transmit(socket, proved, MakeProof(options, proved));
  if (status.ok()) status = co_await Transmit(socket, proved, wire::Verdict{verdict, 0});
  co_return status;
}

asio::awaitable<absl::StatusOr<wire::VerdictCode>> ReceiveVerdict(tcp::socket& socket,
                                                                  const FabricOptions& options,
                                                                  Proved& proved) {
  wire::Proof proof{};
  wire::Verdict verdict{};
  absl::Status status = co_await Receive(socket, proved, proof);
  if (!status.ok()) {
    co_return absl::UnavailableError(absl::StrCat(
        std::string(status.message()), " (does it hold the same key? look at its log)"));
  }
  status = CheckProof(options, proved, proof);
  if (status.ok()) status = co_await Receive(socket, proved, verdict);
  if (!status.ok()) co_return status;
  co_return verdict.code;
}

asio::awaitable<absl::Status> SendIntroduction(tcp::socket& socket, const FabricOptions& options,
                                               const Proved& proved, wire::Introduction own) {
  own.mac = IntroductionMac(options, proved, proved.own_role, own);
  co_return co_await Transmit(socket, proved, own);
}

asio::awaitable<absl::StatusOr<wire::Introduction>> ReceiveIntroduction(
    tcp::socket& socket, const FabricOptions& options, const Proved& proved) {
  wire::Introduction theirs{};
  const absl::Status status = co_await Receive(socket, proved, theirs);
  if (!status.ok()) co_return status;
  const Role sender = proved.own_role == Role::kDialer ? Role::kAcceptor : Role::kDialer;
  if (!EqualInConstantTime(theirs.mac, IntroductionMac(options, proved, sender, theirs)) ||
      theirs.session == 0) {
    co_return absl::PermissionDeniedError("its introduction is not proved");
  }
  co_return theirs;
}

}  // namespace mlxcomm::fabric
