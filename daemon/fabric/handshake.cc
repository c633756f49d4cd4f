#include "daemon/fabric/handshake.h"

#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include <asio/experimental/awaitable_operators.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/fabric/node_places.h"
#include "daemon/platform/await_tuple.h"
#include "daemon/platform/interfaces.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rail/tcp/tls_stream.h"
#include "daemon/rail/text_field.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::fabric {
namespace {

using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.
using platform::kTuple;

absl::Status Ended(const asio::error_code& error) {
  return rail::WithReason(
      absl::UnavailableError(absl::StrCat("the connection ended: ", error.message())),
      LinkReason::kEndedEarly);
}

template <typename Operation>
asio::awaitable<absl::Status> WithDeadline(tcp::socket& socket, const Proved& proved,
                                           Operation operation) {
  asio::steady_timer deadline(socket.get_executor(), proved.deadline);
  const auto first = co_await (std::move(operation) || deadline.async_wait(kTuple));
  if (first.index() == 1) {
    co_return rail::WithReason(absl::UnavailableError("no answer in time"), LinkReason::kNoAnswer);
  }
  const asio::error_code error = std::get<0>(std::get<0>(first));
  co_return error ? Ended(error) : absl::OkStatus();
}

template <typename Message>
asio::awaitable<absl::Status> Receive(tcp::socket& socket, const Proved& proved, Message& message) {
  co_return co_await WithDeadline(
      socket, proved, asio::async_read(socket, asio::buffer(&message, sizeof message), kTuple));
}

template <typename Message>
asio::awaitable<absl::Status> Transmit(tcp::socket& socket, const Proved& proved,
                                       const Message& message) {
  co_return co_await WithDeadline(
      socket, proved, asio::async_write(socket, asio::buffer(&message, sizeof message), kTuple));
}

asio::steady_timer::time_point DeadlineFromNow(const link::FabricOptions& options) {
  return asio::steady_timer::clock_type::now() +
         std::chrono::nanoseconds(options.greeting_timeout_ns);
}

template <typename Message>
std::span<const std::uint8_t> BytesOf(const Message& message, std::size_t bytes) {
  return {reinterpret_cast<const std::uint8_t*>(&message), bytes};
}

template <typename Message>
wire::Mac MacOf(const Proved& proved, rail::Role sender, const Message& message) {
  return MakeMac(proved.proof_key, sender, proved.dialer, proved.acceptor,
                 BytesOf(message, offsetof(Message, mac)));
}

absl::Status Refusal(std::string_view why, LinkReason reason) {
  return rail::WithReason(absl::PermissionDeniedError(std::string(why)), reason);
}

absl::Status FindOwnInterface(const tcp::socket& socket, Proved& proved) {
  asio::error_code error;
  const tcp::endpoint local = socket.local_endpoint(error);
  if (error) return Ended(error);
  const absl::StatusOr<std::string> name = platform::InterfaceOf(local.data());
  if (!name.ok()) return absl::UnavailableError(name.status().message());
  proved.path.local = name->substr(0, wire::kInterfaceBytesMax - 1);
  return absl::OkStatus();
}

bool AsksForTls(const link::SecurityPolicy& policy, const std::string& interface_name) {
  const auto found = policy.on_interface.find(interface_name);
  switch (found == policy.on_interface.end() ? policy.elsewhere : found->second) {
    case link::Security::kTls: return true;
    case link::Security::kPlain: return false;
    case link::Security::kAuto: return !platform::IsDirectCable(interface_name);
  }
  return true;
}

wire::Security Wanted(const link::FabricOptions& options, const Proved& proved) {
  return AsksForTls(options.security, proved.path.local) ? wire::Security::kTls
                                                         : wire::Security::kPlainWillDo;
}

absl::Status SettleOnKey(const link::FabricOptions& options, Proved& proved) {
  const ClusterKey* const key = ChooseKey(*options.keys, proved.dialer, proved.acceptor);
  if (key == nullptr) {
    return Refusal("it does not hold this cluster's key", LinkReason::kWrongKey);
  }
  proved.key = *key;
  proved.proof_key = key->Derive("proof");
  return absl::OkStatus();
}

wire::Proof& ProofOf(rail::Role role, Proved& proved) {
  return role == rail::Role::kDialer ? proved.dialers_proof : proved.acceptors_proof;
}

const wire::Proof& MakeProof(const link::FabricOptions& options, Proved& proved) {
  wire::Proof& proof = ProofOf(proved.own_role, proved);
  proof = wire::Proof{};
  proof.node_id = options.self.id.bytes;
  rail::PutText(proved.path.local, proof.interface_name);
  proof.mac = MacOf(proved, proved.own_role, proof);
  return proof;
}

absl::Status CheckProof(Proved& proved, const wire::Proof& proof) {
  const rail::Role theirs =
      proved.own_role == rail::Role::kDialer ? rail::Role::kAcceptor : rail::Role::kDialer;
  if (!EqualInConstantTime(proof.mac, MacOf(proved, theirs, proof))) {
    return Refusal("it does not hold this cluster's key, or the messages were changed on the way",
                   LinkReason::kNotProved);
  }
  ProofOf(theirs, proved) = proof;
  proved.peer.bytes = proof.node_id;
  proved.path.remote = MakePrintable(rail::TextOf(proof.interface_name));
  if (proved.path.remote.empty()) {
    return Refusal("it does not name its interface", LinkReason::kNotProved);
  }
  return absl::OkStatus();
}

asio::awaitable<absl::Status> WaitFor(tcp::socket& socket, const Proved& proved,
                                      tcp::socket::wait_type what) {
  co_return co_await WithDeadline(socket, proved, socket.async_wait(what, kTuple));
}

absl::Status StreamError() {
  if (errno == EBADMSG) {
    return Refusal("a TLS record is not authentic", LinkReason::kTlsFailed);
  }
  return rail::WithReason(
      absl::UnavailableError(absl::StrCat("the connection ended: ", std::strerror(errno))),
      LinkReason::kEndedEarly);
}

bool MustWait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

asio::awaitable<absl::StatusOr<Proved>> ProveAsDialer(tcp::socket& socket,
                                                      const link::FabricOptions& options) {
  Proved proved;
  proved.own_role = rail::Role::kDialer;
  proved.deadline = DeadlineFromNow(options);
  absl::Status status = FindOwnInterface(socket, proved);
  proved.dialer = MakeGreeting(options.cluster, *options.keys, Wanted(options, proved));
  if (status.ok()) status = co_await Transmit(socket, proved, proved.dialer);
  if (status.ok()) status = co_await Receive(socket, proved, proved.acceptor);
  if (!status.ok()) co_return status;
  if (const GreetingFault wrong = CheckGreeting(proved.acceptor, options.cluster);
      !wrong.text.empty()) {
    co_return Refusal(wrong.text, wrong.reason);
  }
  proved.versions = VersionsOf(proved.acceptor);
  status = SettleOnKey(options, proved);
  if (status.ok()) status = co_await Transmit(socket, proved, MakeProof(options, proved));
  if (!status.ok()) co_return status;
  co_return proved;
}

asio::awaitable<absl::StatusOr<Proved>> CheckDialer(tcp::socket& socket,
                                                    const link::FabricOptions& options) {
  Proved proved;
  proved.own_role = rail::Role::kAcceptor;
  proved.deadline = DeadlineFromNow(options);
  absl::Status status = co_await Receive(socket, proved, proved.dialer);
  if (!status.ok()) co_return status;
  if (const GreetingFault wrong = CheckGreeting(proved.dialer, options.cluster);
      !wrong.text.empty()) {
    if (wrong.reason == LinkReason::kVersionTooFar) {  // Lets the dialer report the cause, too.
      status = co_await Transmit(
          socket, proved,
          MakeGreeting(options.cluster, *options.keys, wire::Security::kPlainWillDo));
    }
    co_return Refusal(wrong.text, wrong.reason);
  }
  proved.versions = VersionsOf(proved.dialer);
  status = FindOwnInterface(socket, proved);
  if (!status.ok()) co_return status;
  proved.acceptor = MakeGreeting(options.cluster, *options.keys, Wanted(options, proved));
  wire::Proof proof{};
  // Sent even if the keys differ, so that the dialer can report it.
  status = co_await Transmit(socket, proved, proved.acceptor);
  if (status.ok()) status = SettleOnKey(options, proved);
  if (status.ok()) status = co_await Receive(socket, proved, proof);
  if (status.ok()) status = CheckProof(proved, proof);
  if (!status.ok()) co_return status;
  co_return proved;
}

asio::awaitable<absl::Status> SendVerdict(tcp::socket& socket, const link::FabricOptions& options,
                                          Proved& proved, wire::VerdictCode verdict) {
  absl::Status status = co_await Transmit(socket, proved, MakeProof(options, proved));
  const wire::Verdict reported{verdict, IsTooMany(verdict) ? options.nodes_max : 0};
  if (status.ok()) status = co_await Transmit(socket, proved, reported);
  co_return status;
}

asio::awaitable<absl::StatusOr<wire::VerdictCode>> ReceiveVerdict(tcp::socket& socket,
                                                                  Proved& proved) {
  wire::Proof proof{};
  wire::Verdict verdict{};
  absl::Status status = co_await Receive(socket, proved, proof);
  if (!status.ok()) {
    // The acceptor closes the connection if the proof is wrong; a timeout proves nothing.
    const LinkReason reason = rail::ReasonOf(status) == LinkReason::kEndedEarly
                                  ? LinkReason::kNotProved
                                  : rail::ReasonOf(status);
    co_return rail::WithReason(
        absl::UnavailableError(absl::StrCat(std::string(status.message()),
                                            " (does it hold the same key? check its log)")),
        reason);
  }
  status = CheckProof(proved, proof);
  if (status.ok()) status = co_await Receive(socket, proved, verdict);
  if (!status.ok()) co_return status;
  proved.limit = verdict.limit;
  co_return verdict.code;
}

asio::awaitable<absl::StatusOr<std::unique_ptr<rail::ByteStream>>> Secure(tcp::socket& socket,
                                                                          const Proved& proved) {
  if (!WantTls(proved.dialer, proved.acceptor)) {
    co_return std::unique_ptr<rail::ByteStream>(std::make_unique<rail::PlainStream>());
  }
  absl::StatusOr<std::unique_ptr<rail::TlsStream>> stream = rail::TlsStream::Create(
      proved.own_role, MakeTlsKey(*proved.key, proved.dialer, proved.acceptor, proved.dialers_proof,
                                  proved.acceptors_proof));
  if (!stream.ok()) co_return rail::WithReason(stream.status(), LinkReason::kTlsFailed);
  for (;;) {
    const absl::StatusOr<rail::TlsStream::Progress> progress =
        (*stream)->Handshake(socket.native_handle());
    if (!progress.ok()) co_return rail::WithReason(progress.status(), LinkReason::kTlsFailed);
    if (*progress == rail::TlsStream::Progress::kDone) co_return *std::move(stream);
    const absl::Status ready = co_await WaitFor(socket, proved,
                                                *progress == rail::TlsStream::Progress::kWantsToRead
                                                    ? tcp::socket::wait_read
                                                    : tcp::socket::wait_write);
    if (!ready.ok()) co_return ready;
  }
}

asio::awaitable<absl::Status> SendIntroduction(tcp::socket& socket, rail::ByteStream& stream,
                                               const Proved& proved, wire::Introduction own) {
  own.mac = MacOf(proved, proved.own_role, own);
  std::size_t sent = 0;
  while (sent < sizeof own || stream.HasUnsent()) {
    iovec part = {reinterpret_cast<char*>(&own) + sent, sizeof own - sent};
    const ssize_t put = sent < sizeof own ? stream.Write(socket.native_handle(), &part, 1)
                                          : stream.Flush(socket.native_handle());
    if (put < 0 && !MustWait()) co_return StreamError();
    if (put > 0 && sent < sizeof own) sent += static_cast<std::size_t>(put);
    if (put > 0) continue;
    const absl::Status ready = co_await WaitFor(socket, proved, tcp::socket::wait_write);
    if (!ready.ok()) co_return ready;
  }
  co_return absl::OkStatus();
}

asio::awaitable<absl::StatusOr<wire::Introduction>> ReceiveIntroduction(tcp::socket& socket,
                                                                        rail::ByteStream& stream,
                                                                        const Proved& proved) {
  wire::Introduction theirs{};
  for (std::size_t have = 0; have < sizeof theirs;) {
    iovec part = {reinterpret_cast<char*>(&theirs) + have, sizeof theirs - have};
    const ssize_t got = stream.Read(socket.native_handle(), &part, 1);
    if (got == 0) {
      co_return rail::WithReason(absl::UnavailableError("the connection ended: End of file"),
                                 LinkReason::kEndedEarly);
    }
    if (got < 0 && !MustWait()) co_return StreamError();
    if (got > 0) {
      have += static_cast<std::size_t>(got);
      continue;
    }
    const absl::Status ready = co_await WaitFor(socket, proved, tcp::socket::wait_read);
    if (!ready.ok()) co_return ready;
  }
  const rail::Role sender =
      proved.own_role == rail::Role::kDialer ? rail::Role::kAcceptor : rail::Role::kDialer;
  if (!EqualInConstantTime(theirs.mac, MacOf(proved, sender, theirs)))
    co_return Refusal("its introduction is not proved", LinkReason::kNotProved);
  if (theirs.session == 0) {
    co_return rail::WithReason(
        absl::UnavailableError("it refuses this node: it is linked with another machine that has "
                               "the same node id"),
        LinkReason::kSameId);
  }
  co_return theirs;
}

}  // namespace mlxcomm::fabric
