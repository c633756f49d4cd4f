// Whether two ends agree to encrypt, and a relay between them that tries to prevent it: it reads,
// changes, replays and delays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/fabric/handshake.h"
#include "daemon/platform/await_tuple.h"
#include "tests/unit/daemon/fabric/some_keys.h"

namespace mlxcomm::fabric::handshake_security_test {
namespace {

using Tcp = asio::ip::tcp;
using platform::kTuple;
using testing::HasSubstr;
using Change = std::function<void(wire::Greeting&)>;

// The result at one end.
struct Outcome {
  absl::Status status = absl::DeadlineExceededError("not done");
  std::unique_ptr<rail::ByteStream> stream;
};

class HandshakeSecurityTest : public testing::Test {
 protected:
  HandshakeSecurityTest() {
    Join(dialer_, left_);
    Join(right_, acceptor_);
  }
  void Join(Tcp::socket& one, Tcp::socket& other) {
    Tcp::acceptor listener(io_, {asio::ip::address_v4::loopback(), 0});
    one.connect(listener.local_endpoint());
    listener.accept(other);
  }
  static link::FabricOptions Options(std::uint8_t id, link::Security security) {
    link::FabricOptions options;
    options.self.id.bytes[0] = id;
    options.cluster = "test";
    options.keys = KeysOf(7);
    options.security.elsewhere = security;
    options.greeting_timeout_ns = 5'000'000'000;
    return options;
  }
  asio::awaitable<void> RunDialer(const link::FabricOptions& options) {
    absl::StatusOr<Proved> proved = co_await ProveAsDialer(dialer_, options);
    absl::Status status = proved.status();
    if (status.ok()) status = (co_await ReceiveVerdict(dialer_, *proved)).status();
    if (status.ok()) status = co_await Finish(dialer_, *proved, as_dialer_);
    as_dialer_.status = status;
    if (!status.ok()) dialer_.close();
  }
  asio::awaitable<void> RunAcceptor(const link::FabricOptions& options) {
    absl::StatusOr<Proved> proved = co_await CheckDialer(acceptor_, options);
    absl::Status status = proved.status();
    if (status.ok()) {
      status = co_await SendVerdict(acceptor_, options, *proved, wire::VerdictCode::kAccepted);
    }
    if (status.ok()) status = co_await Finish(acceptor_, *proved, as_acceptor_);
    as_acceptor_.status = status;
    if (!status.ok()) acceptor_.close();
  }
  asio::awaitable<absl::Status> Finish(Tcp::socket& socket, const Proved& proved,
                                       Outcome& outcome) {
    absl::StatusOr<std::unique_ptr<rail::ByteStream>> stream = co_await Secure(socket, proved);
    if (!stream.ok()) co_return stream.status();
    outcome.stream = *std::move(stream);
    wire::Introduction own{};
    own.session = 5;
    absl::Status status = co_await SendIntroduction(socket, *outcome.stream, proved, own);
    if (!status.ok()) co_return status;
    co_return (co_await ReceiveIntroduction(socket, *outcome.stream, proved)).status();
  }
  // Forwards the bytes, one greeting first, which it may change; keeps a copy.
  asio::awaitable<void> Pass(Tcp::socket& from, Tcp::socket& to, Change change, std::string& seen) {
    wire::Greeting greeting{};
    auto [cut, all] =
        co_await asio::async_read(from, asio::buffer(&greeting, sizeof greeting), kTuple);
    seen.append(reinterpret_cast<const char*>(&greeting), all);
    if (!cut) change(greeting);
    if (!cut) co_await asio::async_write(to, asio::buffer(&greeting, sizeof greeting), kTuple);
    char bytes[4096];
    for (;;) {
      auto [error, got] = co_await from.async_read_some(asio::buffer(bytes), kTuple);
      if (error) break;
      seen.append(bytes, got);
      auto [failed, put] = co_await asio::async_write(to, asio::buffer(bytes, got), kTuple);
      if (failed) break;
    }
    asio::error_code ignored;
    to.shutdown(Tcp::socket::shutdown_send, ignored);
  }
  void Relay(
      Change to_acceptor = [](wire::Greeting&) {}, Change to_dialer = [](wire::Greeting&) {}) {
    asio::co_spawn(io_, Pass(left_, right_, std::move(to_acceptor), from_dialer_), asio::detached);
    asio::co_spawn(io_, Pass(right_, left_, std::move(to_dialer), from_acceptor_), asio::detached);
  }
  void Run(const link::FabricOptions& dialer, const link::FabricOptions& acceptor) {
    asio::co_spawn(io_, RunDialer(dialer), asio::detached);
    asio::co_spawn(io_, RunAcceptor(acceptor), asio::detached);
    while ((absl::IsDeadlineExceeded(as_dialer_.status) ||
            absl::IsDeadlineExceeded(as_acceptor_.status)) &&
           io_.run_one() > 0) {
    }
  }

  asio::io_context io_;
  Tcp::socket dialer_{io_}, left_{io_}, right_{io_}, acceptor_{io_};
  Outcome as_dialer_, as_acceptor_;
  std::string from_dialer_, from_acceptor_;
};

struct Case {
  link::Security dialer, acceptor;
  bool tls;
};
class AskedForTest : public HandshakeSecurityTest, public testing::WithParamInterface<Case> {};

TEST_P(AskedForTest, IsEncryptedIfEitherSideRequiresIt) {
  Relay();
  Run(Options(1, GetParam().dialer), Options(2, GetParam().acceptor));
  ASSERT_TRUE(as_dialer_.status.ok()) << as_dialer_.status;
  ASSERT_TRUE(as_acceptor_.status.ok()) << as_acceptor_.status;
  EXPECT_EQ(as_dialer_.stream->is_encrypted(), GetParam().tls);
  EXPECT_EQ(as_acceptor_.stream->is_encrypted(), GetParam().tls);
}

INSTANTIATE_TEST_SUITE_P(
    All, AskedForTest,
    testing::Values(Case{link::Security::kTls, link::Security::kPlain, true},
                    Case{link::Security::kPlain, link::Security::kTls, true},
                    Case{link::Security::kTls, link::Security::kTls, true},
                    Case{link::Security::kPlain, link::Security::kPlain, false},
                    // Loopback needs none.
                    Case{link::Security::kAuto, link::Security::kAuto, false}));

// Why: a relay could read all frames if it could make each side believe that the other does not
// require TLS.
TEST_F(HandshakeSecurityTest, RefusesWhenARelayRemovesTls) {
  const Change plain = [](wire::Greeting& greeting) {
    greeting.security = wire::Security::kPlainWillDo;
  };
  Relay(plain, plain);
  Run(Options(1, link::Security::kTls), Options(2, link::Security::kTls));
  EXPECT_TRUE(absl::IsPermissionDenied(as_acceptor_.status)) << as_acceptor_.status;
  EXPECT_FALSE(as_dialer_.status.ok());
  EXPECT_EQ(as_dialer_.stream, nullptr);
}

TEST_F(HandshakeSecurityTest, RefusesWhenARelayDeceivesOneSide) {
  Relay([](wire::Greeting&) {},
        [](wire::Greeting& greeting) { greeting.security = wire::Security::kPlainWillDo; });
  Run(Options(1, link::Security::kPlain), Options(2, link::Security::kTls));
  EXPECT_TRUE(absl::IsPermissionDenied(as_acceptor_.status)) << as_acceptor_.status;
  EXPECT_FALSE(as_dialer_.status.ok());
}

// Why: a relay with an old, leaked key must not be able to have it chosen.
TEST_F(HandshakeSecurityTest, RefusesWhenARelayRemovesTheNewKey) {
  link::FabricOptions dialer = Options(1, link::Security::kTls),
                      acceptor = Options(2, link::Security::kTls);
  dialer.keys = acceptor.keys = KeysOf(8, 7);
  const Change old = [](wire::Greeting& greeting) { greeting.keys = {KeyOf(7).id(), {}}; };
  Relay(old, old);
  Run(dialer, acceptor);
  EXPECT_TRUE(absl::IsPermissionDenied(as_acceptor_.status)) << as_acceptor_.status;
}

// Why: numbers and names in the introduction reveal much about a cluster.
TEST_F(HandshakeSecurityTest, NothingAfterTheProofIsReadable) {
  Relay();
  Run(Options(1, link::Security::kTls), Options(2, link::Security::kTls));
  ASSERT_TRUE(as_dialer_.status.ok());
  const std::string session("\5\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(from_dialer_.find(session), std::string::npos);
  EXPECT_EQ(from_acceptor_.find(session), std::string::npos);
}

// How: replays everything that the dialer of one connection has sent on another one.
TEST_F(HandshakeSecurityTest, RefusesADialerPlayedFromARecording) {
  Relay();
  Run(Options(1, link::Security::kTls), Options(2, link::Security::kTls));
  ASSERT_TRUE(as_acceptor_.status.ok());
  Tcp::socket player(io_);
  acceptor_ = Tcp::socket(io_);
  Join(player, acceptor_);
  as_acceptor_ = Outcome();
  asio::write(player, asio::buffer(from_dialer_));
  const link::FabricOptions acceptor = Options(2, link::Security::kTls);
  asio::co_spawn(io_, RunAcceptor(acceptor), asio::detached);
  while (absl::IsDeadlineExceeded(as_acceptor_.status) && io_.run_one() > 0) {
  }
  EXPECT_TRUE(absl::IsPermissionDenied(as_acceptor_.status)) << as_acceptor_.status;
}

class AfterTheProofTest : public HandshakeSecurityTest {
 protected:
  // Proves the key like an honest dialer, then sends these bytes instead of TLS.
  asio::awaitable<void> ProveAndSay(const link::FabricOptions& options, std::string bytes,
                                    std::chrono::milliseconds pause_between) {
    absl::StatusOr<Proved> proved = co_await ProveAsDialer(dialer_, options);
    EXPECT_TRUE(proved.ok());
    asio::steady_timer pause(io_);
    const std::size_t step = pause_between.count() == 0 ? bytes.size() : 1;
    for (std::size_t i = 0; i < bytes.size(); i += step) {
      auto [error, put] =
          co_await asio::async_write(dialer_, asio::buffer(bytes.data() + i, step), kTuple);
      if (error) co_return;
      pause.expires_after(pause_between);
      co_await pause.async_wait(kTuple);
    }
  }
  absl::Status AcceptorsWord(std::string bytes, std::chrono::milliseconds pause_between,
                             std::uint64_t timeout_ns) {
    Relay();
    const link::FabricOptions dialer = Options(1, link::Security::kTls);
    link::FabricOptions acceptor = Options(2, link::Security::kTls);
    acceptor.greeting_timeout_ns = timeout_ns;
    asio::co_spawn(io_, ProveAndSay(dialer, std::move(bytes), pause_between), asio::detached);
    asio::co_spawn(io_, RunAcceptor(acceptor), asio::detached);
    while (absl::IsDeadlineExceeded(as_acceptor_.status) && io_.run_one() > 0) {
    }
    return as_acceptor_.status;
  }
};

TEST_F(AfterTheProofTest, RefusesGarbageInsteadOfTls) {
  const absl::Status refused =
      AcceptorsWord(std::string(2000, 'G'), std::chrono::milliseconds(0), 60'000'000'000);
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("TLS"));
}

// Why: plain frames after agreeing on TLS would be a downgrade.
TEST_F(AfterTheProofTest, RefusesAnIntroductionInTheClear) {
  const absl::Status refused = AcceptorsWord(std::string(sizeof(wire::Introduction), '\1'),
                                             std::chrono::milliseconds(0), 60'000'000'000);
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
}

// How: the first bytes of a record that is never completed, one by one.
TEST_F(AfterTheProofTest, HasOneDeadlineForTlsToo) {
  const absl::Status late =
      AcceptorsWord(std::string("\x16\x03\x01\x02\x00\x01", 6) + std::string(500, '\0'),
                    std::chrono::milliseconds(20), 300'000'000);
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("in time"));
}

}  // namespace
}  // namespace mlxcomm::fabric::handshake_security_test
