// Two ends of one connection prove the key to each other, or one end is a stranger.
#include "daemon/fabric/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/rail/status_reason.h"
#include "tests/unit/daemon/fabric/some_keys.h"

namespace mlxcomm::fabric::handshake_test {
namespace {

using Tcp = asio::ip::tcp;
using testing::HasSubstr;

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTest() {
    Tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
    near_.connect(acceptor.local_endpoint());
    acceptor.accept(far_);
  }
  static link::FabricOptions Options(std::uint8_t id, std::uint8_t key = 7) {
    link::FabricOptions options;
    options.self.id.bytes[0] = id;
    options.cluster = "test";
    options.keys = KeysOf(key);
    options.greeting_timeout_ns = 60'000'000'000;
    return options;
  }
  template <typename Result>
  void Spawn(asio::awaitable<Result> coroutine, std::unique_ptr<Result>& result) {
    asio::co_spawn(io_, std::move(coroutine),
                   [&result](const std::exception_ptr& error, Result value) {
                     ASSERT_EQ(error, nullptr);
                     result = std::make_unique<Result>(std::move(value));
                   });
  }
  void RunIo() {
    io_.restart();
    io_.run();
  }
  // Both ends up to the verdict.
  void Prove(const link::FabricOptions& dialer, const link::FabricOptions& acceptor) {
    Spawn(ProveAsDialer(near_, dialer), as_dialer_);
    Spawn(CheckDialer(far_, acceptor), as_acceptor_);
    RunIo();
  }
  static wire::Introduction OwnIntroduction() {
    wire::Introduction own{};
    own.session = 5;
    own.next_expected = 1;
    return own;
  }

  rail::PlainStream plain_;
  asio::io_context io_;
  Tcp::socket near_{io_};
  Tcp::socket far_{io_};
  std::unique_ptr<absl::StatusOr<Proved>> as_dialer_;
  std::unique_ptr<absl::StatusOr<Proved>> as_acceptor_;
};

TEST_F(HandshakeTest, BothEndsLearnThePeersIdentity) {
  const link::FabricOptions dialer = Options(1);
  const link::FabricOptions acceptor = Options(2);
  Prove(dialer, acceptor);
  ASSERT_TRUE(as_acceptor_->ok()) << as_acceptor_->status();
  ASSERT_TRUE(as_dialer_->ok()) << as_dialer_->status();
  EXPECT_EQ((*as_acceptor_)->peer, dialer.self.id);
  std::unique_ptr<absl::Status> sent;
  std::unique_ptr<absl::StatusOr<wire::VerdictCode>> verdict;
  Spawn(SendVerdict(far_, acceptor, **as_acceptor_, wire::VerdictCode::kAccepted), sent);
  Spawn(ReceiveVerdict(near_, **as_dialer_), verdict);
  RunIo();
  ASSERT_TRUE(verdict->ok()) << verdict->status();
  EXPECT_EQ(**verdict, wire::VerdictCode::kAccepted);
  EXPECT_EQ((*as_dialer_)->peer, acceptor.self.id);
  std::unique_ptr<absl::Status> introduced;
  std::unique_ptr<absl::StatusOr<wire::Introduction>> theirs;
  Spawn(SendIntroduction(near_, plain_, **as_dialer_, OwnIntroduction()), introduced);
  Spawn(ReceiveIntroduction(far_, plain_, **as_acceptor_), theirs);
  RunIo();
  ASSERT_TRUE(theirs->ok()) << theirs->status();
  EXPECT_EQ((*theirs)->session, 5u);
}

// Both sides get the reason, so that either log shows it.
TEST_F(HandshakeTest, RefusesADialerWithAnotherKey) {
  Prove(Options(1, /*key=*/8), Options(2));
  EXPECT_TRUE(absl::IsPermissionDenied(as_acceptor_->status())) << as_acceptor_->status();
  EXPECT_TRUE(absl::IsPermissionDenied(as_dialer_->status())) << as_dialer_->status();
  EXPECT_EQ(rail::ReasonOf(as_acceptor_->status()), LinkReason::kWrongKey);
  EXPECT_EQ(rail::ReasonOf(as_dialer_->status()), LinkReason::kWrongKey);
}

TEST_F(HandshakeTest, RefusesAnAcceptorWithAnotherKey) {
  const link::FabricOptions dialer = Options(1);
  Prove(dialer, Options(2));
  std::unique_ptr<absl::Status> sent;
  std::unique_ptr<absl::StatusOr<wire::VerdictCode>> verdict;
  const link::FabricOptions impostor = Options(2);
  (*as_acceptor_)->proof_key = KeyOf(8).Derive("proof");  // It knows only the other key's id.
  Spawn(SendVerdict(far_, impostor, **as_acceptor_, wire::VerdictCode::kAccepted), sent);
  Spawn(ReceiveVerdict(near_, **as_dialer_), verdict);
  RunIo();
  EXPECT_TRUE(absl::IsPermissionDenied(verdict->status())) << verdict->status();
  EXPECT_EQ(rail::ReasonOf(verdict->status()), LinkReason::kNotProved);
}

TEST_F(HandshakeTest, RefusesWhatIsNotAnMlxcommd) {
  asio::write(near_, asio::buffer(std::string(sizeof(wire::Greeting), 'G')));
  const link::FabricOptions acceptor = Options(2);
  Spawn(CheckDialer(far_, acceptor), as_acceptor_);
  RunIo();
  EXPECT_THAT(std::string(as_acceptor_->status().message()), HasSubstr("not an mlxcommd"));
  EXPECT_EQ(rail::ReasonOf(as_acceptor_->status()), LinkReason::kNotADaemon);
}

// Why: a dialer's own proof, sent back to it, must prove nothing.
TEST_F(HandshakeTest, RefusesItsOwnProofThrownBack) {
  const link::FabricOptions dialer = Options(1);
  Spawn(ProveAsDialer(near_, dialer), as_dialer_);
  asio::co_spawn(
      io_,
      [&]() -> asio::awaitable<void> {
        wire::Greeting greeting{};
        co_await asio::async_read(far_, asio::buffer(&greeting, sizeof greeting),
                                  asio::use_awaitable);
        co_await asio::async_write(far_, asio::buffer(&greeting, sizeof greeting),
                                   asio::use_awaitable);
        wire::Proof proof{};
        co_await asio::async_read(far_, asio::buffer(&proof, sizeof proof), asio::use_awaitable);
        co_await asio::async_write(far_, asio::buffer(&proof, sizeof proof), asio::use_awaitable);
      },
      [](const std::exception_ptr& error) { ASSERT_EQ(error, nullptr); });
  RunIo();
  ASSERT_TRUE(as_dialer_->ok());
  std::unique_ptr<absl::StatusOr<wire::VerdictCode>> verdict;
  Spawn(ReceiveVerdict(near_, **as_dialer_), verdict);
  RunIo();
  EXPECT_TRUE(absl::IsPermissionDenied(verdict->status())) << verdict->status();
}

// Why: sessions and numbers in the introduction decide what is resent; an attacker on the path must
// not be able to change or replay them.
TEST_F(HandshakeTest, RefusesAnIntroductionThatWasChangedOrIsOfAnotherConnection) {
  const link::FabricOptions dialer = Options(1);
  const link::FabricOptions acceptor = Options(2);
  Prove(dialer, acceptor);
  std::unique_ptr<absl::Status> sent;
  Spawn(SendIntroduction(near_, plain_, **as_dialer_, OwnIntroduction()), sent);
  RunIo();
  wire::Introduction taken{};
  asio::read(far_, asio::buffer(&taken, sizeof taken));
  const auto refuses = [&](const wire::Introduction& introduction, const Proved& proved) {
    asio::write(near_, asio::buffer(&introduction, sizeof introduction));
    std::unique_ptr<absl::StatusOr<wire::Introduction>> theirs;
    Spawn(ReceiveIntroduction(far_, plain_, proved), theirs);
    RunIo();
    return absl::IsPermissionDenied(theirs->status());
  };
  EXPECT_FALSE(refuses(taken, **as_acceptor_));
  wire::Introduction changed = taken;
  changed.next_expected = 2;
  EXPECT_TRUE(refuses(changed, **as_acceptor_));
  Proved elsewhere = **as_acceptor_;
  elsewhere.acceptor = MakeGreeting("test", KeysOf(7), wire::Security::kPlainWillDo);
  EXPECT_TRUE(refuses(taken, elsewhere));
}

// Why: a stranger that sends a byte now and then would hold its place forever if each message had
// its own deadline.
// How: it sends a greeting byte by byte, each time the timer fires; all of it would take far longer
// than the one deadline.
TEST_F(HandshakeTest, EndsAtOneDeadlineHoweverSlowlyThePeerSends) {
  link::FabricOptions options = Options(2);
  options.greeting_timeout_ns = 100'000'000;
  Spawn(CheckDialer(far_, options), as_acceptor_);
  bool ended = false;
  asio::co_spawn(
      io_,
      [&]() -> asio::awaitable<void> {
        wire::Greeting greeting = MakeGreeting("test", KeysOf(7), wire::Security::kPlainWillDo);
        const char* const bytes = reinterpret_cast<const char*>(&greeting);
        asio::steady_timer pause(io_);
        for (std::size_t i = 0; i < sizeof greeting && as_acceptor_ == nullptr; ++i) {
          co_await asio::async_write(near_, asio::buffer(bytes + i, 1), asio::use_awaitable);
          pause.expires_after(std::chrono::milliseconds(20));
          co_await pause.async_wait(asio::use_awaitable);
        }
        ended = as_acceptor_ != nullptr;
      },
      [](const std::exception_ptr& error) { ASSERT_EQ(error, nullptr); });
  RunIo();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(absl::IsUnavailable(as_acceptor_->status())) << as_acceptor_->status();
  EXPECT_THAT(std::string(as_acceptor_->status().message()), HasSubstr("in time"));
}

}  // namespace
}  // namespace mlxcomm::fabric::handshake_test
