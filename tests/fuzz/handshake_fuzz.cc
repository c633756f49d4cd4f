// Handshakes: the messages on a new connection between daemons, before the first frame.
//
// Hostile: anyone who can reach the port, until it has proved the key; then a node with a bug.
// Read by: ProveAsDialer, CheckDialer, ReceiveVerdict, Secure and ReceiveIntroduction
// (daemon/fabric/handshake.h), with authentication.h and, if TLS is requested, tcp/tls_stream.h.
// The real coroutines run on one end of a loopback connection. This target is the other end: it
// holds the key, so its messages are right except for the script's changes, before or after they
// are proved, and no HMAC stops the fuzzer.
//
// Must hold, for either role:
//   - the other side is trusted exactly if its greeting has this version and cluster, both have
//     a key in common, and its proof uses that key over both greetings, computed here from its
//     definition in wire/hello.h; then its node and interface are those it has proved;
//   - a dialer that is not believed has got nothing but a greeting, and that only if its own was
//     right;
//   - what follows is encrypted when either side wants it, and then nothing in clear is believed;
//   - an introduction is accepted exactly when it is proved and has a session;
//   - in every case, each step has ended once the connection has.
//
// Script: a byte for the role and both requests, a byte for the keys; then for each message how it
// is sent, and its changes.
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "absl/status/statusor.h"
#include "daemon/fabric/handshake.h"
#include "proto/types/plain_text.h"
#include "tests/fuzz/fuzz.h"

namespace mlxcomm::fabric {
namespace {

using fuzz::Input;
using Tcp = asio::ip::tcp;

constexpr char kCluster[] = "lab";

ClusterKey KeyOf(std::uint8_t number) {
  ClusterKey::Bytes bytes;
  bytes.fill(number);
  return ClusterKey(bytes);
}

// As defined in wire/hello.h.
wire::Mac MacOf(const ClusterKey& key, bool of_dialer, const wire::Greeting& dialer,
                const wire::Greeting& acceptor, const void* message, std::size_t bytes) {
  std::string covered = of_dialer ? "dialer  " : "acceptor";
  covered.append(reinterpret_cast<const char*>(&dialer), sizeof dialer);
  covered.append(reinterpret_cast<const char*>(&acceptor), sizeof acceptor);
  covered.append(static_cast<const char*>(message), bytes);
  const DerivedKey derived = key.Derive("proof");
  wire::Mac mac{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), derived.data(), static_cast<int>(derived.size()),
       reinterpret_cast<const unsigned char*>(covered.data()), covered.size(), mac.data(), &length);
  return mac;
}

// How a message is sent. Changes are made before it is proved, or after.
enum class Way : std::uint8_t { kRight, kChanged, kForged, kCut };
struct Changes {
  Way way = Way::kRight;
  std::vector<std::pair<std::uint8_t, std::uint8_t>> bytes;  // Where, and with what; 0: to zero.
  std::uint8_t length = 0;
};
Changes TakeChanges(Input& input) {
  Changes changes;
  const std::uint8_t how = input.TakeByte();
  changes.way = static_cast<Way>(how & 3);
  if (changes.way == Way::kRight) return changes;
  if (changes.way == Way::kCut) changes.length = input.TakeByte();
  for (int i = 0; i <= ((how >> 2) & 7); ++i) {
    const std::uint8_t where = input.TakeByte();
    changes.bytes.emplace_back(where, input.TakeByte());
  }
  return changes;
}
template <typename Message>
void Change(Message& message, const Changes& changes, std::size_t bytes = sizeof(Message)) {
  for (const auto& [where, with] : changes.bytes) {
    std::uint8_t& byte = reinterpret_cast<std::uint8_t*>(&message)[where % bytes];
    byte = with == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(byte ^ with);
  }
}

// Both ends of a connection that leaves no port behind when it ends.
class Connection {
 public:
  Connection() {
    static asio::io_context accepting;
    static Tcp::acceptor acceptor(accepting, {asio::ip::address_v4::loopback(), 0});
    theirs.connect(acceptor.local_endpoint());
    acceptor.accept(ours);
    theirs.set_option(Tcp::no_delay(true));
    ours.set_option(Tcp::no_delay(true));
    theirs.set_option(asio::socket_base::linger(true, 0));
    ours.set_option(asio::socket_base::linger(true, 0));
    ours.non_blocking(true);
  }
  static asio::io_context& io() {
    static asio::io_context io;
    return io;
  }
  Tcp::socket ours{io()};    // The daemon's.
  Tcp::socket theirs{io()};  // The target's.
};

class Handshake {
 public:
  explicit Handshake(Input& input) : input_(input) {
    const std::uint8_t how = input.TakeByte();
    own_dials_ = (how & 1) != 0;
    options_.self.id.bytes[0] = 2;
    options_.cluster = kCluster;
    options_.greeting_timeout_ns = 3'600'000'000'000;
    options_.security.elsewhere = (how & 2) != 0 ? link::Security::kTls : link::Security::kPlain;
    wants_tls_ = (how & 4) != 0;
    says_tls_ = (how & 8) != 0;  // It requests TLS from peers that support it.
    const std::uint8_t keys = input.TakeByte();
    options_.keys = ClusterKeys{KeyOf(1), std::nullopt, ""};
    if ((keys & 1) != 0) options_.keys->previous = KeyOf(2);
    held_.push_back(static_cast<std::uint8_t>(1 + (keys >> 1 & 3) % 3));
    if ((keys & 8) != 0) held_.push_back(static_cast<std::uint8_t>(1 + (keys >> 4 & 3) % 3));
  }

  void Run() {
    greeting_ = MakeTheirGreeting();
    const std::optional<Proved> proved = own_dials_ ? RunDialer() : RunAcceptor();
    if (proved.has_value()) RunProved(*proved);
  }

 private:
  template <typename Result>
  using Pending = std::unique_ptr<Result>;

  template <typename Result>
  Pending<Result>* Spawn(asio::awaitable<Result> coroutine, Pending<Result>& result) {
    asio::co_spawn(Connection::io(), std::move(coroutine),
                   [&result](const std::exception_ptr& error, Result value) {
                     if (error != nullptr) std::abort();
                     result = std::make_unique<Result>(std::move(value));
                   });
    return &result;
  }
  static void Turn() {
    Connection::io().restart();
    while (Connection::io().poll() > 0) {
    }
  }
  // A busy kernel delivers written data late, even over loopback. True if something arrived within
  // this time.
  static constexpr std::chrono::seconds kCarried{20};
  template <typename Condition>
  static bool Await(const Condition& condition) {
    const auto give_up = std::chrono::steady_clock::now() + kCarried;
    while (!condition()) {
      if (std::chrono::steady_clock::now() >= give_up) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // The other side leaves, so that any wait for it ends.
  template <typename Result>
  void Finish(const Pending<Result>& result) {
    Turn();
    if (result != nullptr) return;
    asio::error_code ignored;
    connection_.theirs.shutdown(Tcp::socket::shutdown_send, ignored);
    MLXCOMM_MUST(Ends(result), "each step ends once the connection has");
  }
  template <typename Result>
  static bool Ends(const Pending<Result>& result) {
    return Await([&] {
      Turn();
      return result != nullptr;
    });
  }
  // It has reached the daemon, or the daemon no longer listens.
  void Put(const void* data, std::size_t bytes) {
    asio::error_code error;
    const std::size_t before = connection_.ours.available(error);
    std::size_t sent = 0;
    while (sent < bytes && !error) {
      sent += connection_.theirs.write_some(
          asio::buffer(static_cast<const char*>(data) + sent, bytes - sent), error);
    }
    if (error) return;
    const bool arrived = Await([&] {
      const std::size_t now = connection_.ours.available(error);
      return error || now >= before + bytes;
    });
    MLXCOMM_MUST(arrived, "what is written arrives");
  }
  // False if the daemon did not send it. There is no way to wait for the absence of data.
  bool Get(void* data, std::size_t bytes, bool comes = true) {
    const auto receive = [&] {
      return ::recv(connection_.theirs.native_handle(), data, bytes, MSG_DONTWAIT | MSG_PEEK);
    };
    if (comes) {
      Await([&] {
        const ssize_t got = receive();
        return got == static_cast<ssize_t>(bytes) || got == 0;
      });
    }
    if (receive() != static_cast<ssize_t>(bytes)) return false;
    return ::recv(connection_.theirs.native_handle(), data, bytes, MSG_DONTWAIT) > 0;
  }
  template <typename Message>
  void PutMessage(Message message, const Changes& changes) {
    if (changes.way == Way::kForged || changes.way == Way::kCut) Change(message, changes);
    const bool cut = changes.way == Way::kCut;
    const std::size_t bytes = cut ? changes.length % sizeof message : sizeof message;
    Put(&message, bytes);
    asio::error_code ignored;
    if (cut) connection_.theirs.shutdown(Tcp::socket::shutdown_send, ignored);
  }

  // Known to both sides by now; a forged one counts as it was sent.
  struct Greeting {
    wire::Greeting value{};
    bool whole = true;
    Changes changes;
  };
  Greeting MakeTheirGreeting() {
    Greeting made;
    wire::Greeting& greeting = made.value;
    greeting.magic = wire::kGreetingMagic;
    greeting.version = wire::SpokenVersions().newest;
    greeting.security = says_tls_ ? wire::Security::kTls : wire::Security::kPlainWillDo;
    std::memcpy(greeting.cluster, kCluster, sizeof kCluster);
    for (std::size_t i = 0; i < held_.size(); ++i) greeting.keys[i] = KeyOf(held_[i]).id();
    greeting.nonce.fill(9);
    made.changes = TakeChanges(input_);
    if (made.changes.way != Way::kRight) Change(greeting, made.changes);
    made.whole = made.changes.way != Way::kCut;
    made.changes.bytes.clear();  // They are part of it.
    return made;
  }
  // Written differently from the daemon: one of its versions is among theirs.
  static bool Speaks(const wire::Greeting& greeting, const wire::VersionRange& own) {
    for (int one = greeting.version - greeting.older; one <= greeting.version; ++one) {
      if (one == 0) return false;
      if (one >= own.oldest && one <= own.newest) return greeting.older < greeting.version;
    }
    return false;
  }
  static bool IsOfTheCluster(const wire::Greeting& greeting) {
    return std::string(greeting.cluster, ::strnlen(greeting.cluster, sizeof greeting.cluster)) ==
           kCluster;
  }
  static bool AsksForKnownSecurity(const wire::Greeting& greeting) {
    const auto security = static_cast<std::uint32_t>(greeting.security);
    return security == 1 || security == 2;
  }
  static bool IsRight(const wire::Greeting& greeting) {
    return greeting.magic == 0x6d6c78636f6d6d70 && Speaks(greeting, wire::SpokenVersions()) &&
           IsOfTheCluster(greeting) && AsksForKnownSecurity(greeting);
  }
  // A peer of a distant version is answered as well, so that both sides know the reason.
  static bool IsTooFar(const wire::Greeting& greeting) {
    if (greeting.magic != 0x6d6c78636f6d6d70 || greeting.older >= greeting.version) return false;
    if (!Speaks(greeting, wire::SpokenVersions())) return true;
    return IsOfTheCluster(greeting) && !AsksForKnownSecurity(greeting);
  }
  // The first of the acceptor's keys that the dialer has, too, and the daemon holds.
  std::optional<ClusterKey> CommonKey(const wire::Greeting& dialer,
                                      const wire::Greeting& acceptor) const {
    for (const wire::KeyId& id : acceptor.keys) {
      if (id == wire::KeyId{} || (id != dialer.keys[0] && id != dialer.keys[1])) continue;
      if (options_.keys->current.id() == id) return options_.keys->current;
      if (options_.keys->previous && options_.keys->previous->id() == id) {
        return options_.keys->previous;
      }
      return std::nullopt;
    }
    return std::nullopt;
  }

  // `key` is the one with which the daemon will check. False if it cannot be trusted.
  bool PutProof(bool of_dialer, const wire::Greeting& dialer, const wire::Greeting& acceptor,
                const std::optional<ClusterKey>& key) {
    wire::Proof& proof = their_proof_;
    proof.node_id[0] = 1;
    std::memcpy(proof.interface_name, "en7", 3);
    const Changes changes = TakeChanges(input_);
    if (changes.way == Way::kChanged) Change(proof, changes, offsetof(wire::Proof, mac));
    // It proves its own key, which may differ from the agreed one.
    const ClusterKey with = key.has_value() ? *key : KeyOf(held_[0]);
    proof.mac = MacOf(with, of_dialer, dialer, acceptor, &proof, offsetof(wire::Proof, mac));
    const wire::Proof right = proof;
    PutMessage(proof, changes);
    if (changes.way == Way::kCut) return false;
    if (changes.way == Way::kForged) {
      Change(proof, changes);
      if (std::memcmp(&proof, &right, sizeof proof) != 0) return false;
    }
    return key.has_value() && proof.interface_name[0] != '\0';
  }
  void CheckPeer(const Proved& proved) const {
    MLXCOMM_MUST(proved.peer.bytes == their_proof_.node_id, "a node is who it has proved to be");
    const std::string_view name(their_proof_.interface_name,
                                ::strnlen(their_proof_.interface_name, wire::kInterfaceBytesMax));
    MLXCOMM_MUST(proved.path.remote == MakePrintable(name),
                 "an interface is the one that was named");
  }

  std::optional<Proved> RunAcceptor() {
    Pending<absl::StatusOr<Proved>> result;
    Spawn(CheckDialer(connection_.ours, options_), result);
    PutMessage(greeting_.value, greeting_.changes);
    Turn();
    wire::Greeting acceptor{};
    const bool right = greeting_.whole && IsRight(greeting_.value);
    const bool too_far = greeting_.whole && IsTooFar(greeting_.value);
    const bool answered = Get(&acceptor, sizeof acceptor, right);
    MLXCOMM_MUST(answered == (right || too_far), "only a right greeting is answered");
    bool believed = false;
    if (right) {
      const std::optional<ClusterKey> key = CommonKey(greeting_.value, acceptor);
      believed = PutProof(/*of_dialer=*/true, greeting_.value, acceptor, key);
    }
    Finish(result);
    MLXCOMM_MUST(result->ok() == believed, "who has proved the key is believed, nobody else: " +
                                               std::string(result->status().message()));
    char more;
    MLXCOMM_MUST(!Get(&more, sizeof more, false), "nothing is proved to whom nobody believes yet");
    if (!believed) return std::nullopt;
    CheckPeer(**result);
    // Its own proof, which shows that it holds the key as well; and its verdict on the connection.
    Pending<absl::Status> sent;
    Spawn(SendVerdict(connection_.ours, options_, **result, wire::VerdictCode::kAccepted), sent);
    Finish(sent);
    wire::Proof proof{};
    wire::Verdict verdict{};
    const bool came = Get(&proof, sizeof proof) && Get(&verdict, sizeof verdict);
    MLXCOMM_MUST(came && verdict.code == wire::VerdictCode::kAccepted, "a verdict is told");
    MLXCOMM_MUST(proof.mac == MacOf(*(*result)->key, /*of_dialer=*/false, greeting_.value, acceptor,
                                    &proof, offsetof(wire::Proof, mac)),
                 "the daemon proves the key as well");
    acceptor_ = acceptor;
    dialer_ = greeting_.value;
    own_proof_ = proof;
    return **result;
  }

  std::optional<Proved> RunDialer() {
    Pending<absl::StatusOr<Proved>> result;
    Spawn(ProveAsDialer(connection_.ours, options_), result);
    Turn();
    wire::Greeting dialer{};
    MLXCOMM_MUST(Get(&dialer, sizeof dialer), "a dialer greets first");
    PutMessage(greeting_.value, greeting_.changes);
    Turn();
    const bool right = greeting_.whole && IsRight(greeting_.value);
    const std::optional<ClusterKey> key = right ? CommonKey(dialer, greeting_.value) : std::nullopt;
    Finish(result);
    MLXCOMM_MUST(result->ok() == key.has_value(), "a dialer goes on where there is a common key: " +
                                                      std::string(result->status().message()));
    wire::Proof proof{};
    MLXCOMM_MUST(Get(&proof, sizeof proof, key.has_value()) == key.has_value(),
                 "a dialer proves nothing to who has no key in common");
    if (!key.has_value()) return std::nullopt;
    MLXCOMM_MUST(proof.mac == MacOf(*key, /*of_dialer=*/true, dialer, greeting_.value, &proof,
                                    offsetof(wire::Proof, mac)),
                 "the daemon proves the key");
    Pending<absl::StatusOr<wire::VerdictCode>> verdict;
    Spawn(ReceiveVerdict(connection_.ours, **result), verdict);
    const bool believed = PutProof(/*of_dialer=*/false, dialer, greeting_.value, key);
    const wire::Verdict reported{static_cast<wire::VerdictCode>(input_.TakeByte()), 0};
    const bool whole = (input_.TakeByte() & 7) != 7;
    if (believed || whole) Put(&reported, whole ? sizeof reported : 3);
    Finish(verdict);
    MLXCOMM_MUST(
        verdict->ok() == (believed && whole),
        "a verdict is that of who has proved the key: " + std::string(verdict->status().message()));
    if (!verdict->ok()) return std::nullopt;
    MLXCOMM_MUST(**verdict == reported.code, "a verdict is what was told");
    CheckPeer(**result);
    acceptor_ = greeting_.value;
    dialer_ = dialer;
    own_proof_ = proof;
    return **result;
  }

  // The same from the other end's view.
  Proved Theirs(const Proved& proved) const {
    Proved theirs = proved;
    theirs.own_role = own_dials_ ? rail::Role::kAcceptor : rail::Role::kDialer;
    theirs.dialers_proof = own_dials_ ? own_proof_ : their_proof_;
    theirs.acceptors_proof = own_dials_ ? their_proof_ : own_proof_;
    return theirs;
  }

  void RunProved(const Proved& proved) {
    const bool tls =
        dialer_.security == wire::Security::kTls || acceptor_.security == wire::Security::kTls;
    const bool speaks = tls && wants_tls_;
    connection_.theirs.non_blocking(true);
    Pending<absl::StatusOr<std::unique_ptr<rail::ByteStream>>> ours;
    Pending<absl::StatusOr<std::unique_ptr<rail::ByteStream>>> theirs;
    const Proved other = Theirs(proved);
    Spawn(Secure(connection_.ours, proved), ours);
    if (speaks) {
      Spawn(Secure(connection_.theirs, other), theirs);
      MLXCOMM_MUST(Ends(ours) && Ends(theirs), "who both speak TLS come to an end");
    } else if (tls) {  // Arbitrary bytes instead: it holds the key, and has a bug.
      const std::string bytes = input_.TakeRest();
      Put(bytes.data(), bytes.size());
    }
    Finish(ours);
    MLXCOMM_MUST(ours->ok() == (!tls || speaks),
                 "TLS is with who speaks it: " + std::string(ours->status().message()));
    if (!ours->ok()) return;
    MLXCOMM_MUST((**ours)->is_encrypted() == tls, "it is encrypted when either side wants it");
    if (speaks) {
      Finish(theirs);
      if (!theirs->ok()) return;
    }
    rail::PlainStream plain;
    Introduce(proved, ***ours, speaks ? ***theirs : plain);
  }

  void Introduce(const Proved& proved, rail::ByteStream& ours, rail::ByteStream& theirs) {
    wire::Introduction introduction{};
    introduction.incarnation = 3;
    introduction.session = 5;
    const Changes changes = TakeChanges(input_);
    if (changes.way == Way::kChanged) {
      Change(introduction, changes, offsetof(wire::Introduction, mac));
    }
    const bool of_dialer = !own_dials_;
    introduction.mac = MacOf(*proved.key, of_dialer, dialer_, acceptor_, &introduction,
                             offsetof(wire::Introduction, mac));
    const wire::Introduction right = introduction;
    if (changes.way == Way::kForged) Change(introduction, changes);
    const bool proves = std::memcmp(&introduction, &right, sizeof right) == 0;
    std::size_t bytes = sizeof introduction;
    if (changes.way == Way::kCut) bytes = changes.length % sizeof introduction;
    Pending<absl::StatusOr<wire::Introduction>> result;
    Spawn(ReceiveIntroduction(connection_.ours, ours, proved), result);
    for (std::size_t sent = 0; sent < bytes;) {
      iovec part = {reinterpret_cast<char*>(&introduction) + sent, bytes - sent};
      const ssize_t put = theirs.Write(connection_.theirs.native_handle(), &part, 1);
      if (put <= 0) break;
      sent += static_cast<std::size_t>(put);
    }
    Finish(result);
    MLXCOMM_MUST(
        result->ok() == (proves && bytes == sizeof introduction && introduction.session != 0),
        "an introduction is taken where it is proved: " + std::string(result->status().message()));
    if (!result->ok()) return;
    MLXCOMM_MUST(std::memcmp(&**result, &introduction, sizeof introduction) == 0,
                 "an introduction is what was said");
  }

  Input& input_;
  Connection connection_;
  link::FabricOptions options_;
  bool own_dials_ = false;  // The daemon does.
  bool wants_tls_ = false;
  bool says_tls_ = false;
  std::vector<std::uint8_t> held_;
  Greeting greeting_;
  wire::Greeting dialer_{};
  wire::Greeting acceptor_{};
  wire::Proof their_proof_{};
  wire::Proof own_proof_{};
};

}  // namespace
}  // namespace mlxcomm::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  mlxcomm::fuzz::Input input(data, bytes);
  mlxcomm::fabric::Handshake(input).Run();
  return 0;
}
