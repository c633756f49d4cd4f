#include "daemon/rdma/setup.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/fabric/authentication.h"
#include "daemon/rail/status_reason.h"

namespace mlxcomm::rdma::setup_test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// One side: requests are executed at once, unless a test delays them.
struct Side : SetupPort {
  Side(bool offers, const Limits& limits)
      : number(offers ? 11u : 22u),
        setup(*this, offers ? rail::RailPath("en1", "en2") : rail::RailPath("en2", "en1"), offers,
              limits) {}

  void Send(const RailSetup& message) override { sent.push_back(message); }
  void Make(const QueuePairShape& with) override {
    shape = with;
    making = true;
  }
  void Connect(const QueuePairAddress& peer) override {
    connecting = true;
    to = peer.number;
  }
  absl::Status AddRail(std::uint64_t attempt, Service service,
                       const QueuePairAddress& peer) override {
    rails.push_back(attempt);
    EXPECT_EQ(service, shape.service);
    EXPECT_EQ(peer.number, number == 11 ? 22u : 11u);
    EXPECT_EQ(peer.receives, receives);
    return added;
  }
  void Drop() override { dropped.push_back(setup.attempt()); }

  // Acts as the driver.
  void Drive(std::uint64_t now) {
    if (making && !hangs) {
      absl::StatusOr<QueuePairAddress> made = QueuePairAddress{{}, number, 5, receives, 0, 1024};
      if (!make_status.ok()) made = make_status;
      if (unreliable_only && shape.service == Service::kReliable) {
        made = absl::UnimplementedError("no reliable queue pairs");
      }
      making = false;
      setup.OnMade(made, now);
    }
    if (connecting && !hangs) {
      connecting = false;
      setup.OnConnected(connect_status, now);
    }
  }

  const std::uint32_t number;
  Setup setup;
  std::deque<RailSetup> sent;
  QueuePairShape shape;
  bool making = false;
  bool connecting = false;
  std::uint32_t to = 0;
  std::uint32_t receives = 16;
  bool hangs = false;
  bool unreliable_only = false;
  absl::Status make_status;
  absl::Status connect_status;
  absl::Status added;
  std::vector<std::uint64_t> rails;
  std::vector<std::uint64_t> dropped;
};

class SetupTest : public testing::Test {
 protected:
  void Make(const Limits& a = {}, const Limits& b = {}) {
    offerer = std::make_unique<Side>(true, a);
    answerer = std::make_unique<Side>(false, b);
  }
  void Run(const Limits& a = {}, const Limits& b = {}) {
    Make(a, b);
    Settle();
  }
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      for (Side* side : {offerer.get(), answerer.get()}) {
        side->setup.OnTime(now, next_attempt++);
        side->Drive(now);
        Side* const other = side == offerer.get() ? answerer.get() : offerer.get();
        for (; !side->sent.empty(); side->sent.pop_front()) {
          if (!deaf) other->setup.OnMessage(side->sent.front(), now);
        }
      }
    }
  }
  void Wait(std::uint64_t ns) {
    now += ns;
    Settle();
  }
  bool BothUp() const {
    return offerer->setup.state() == Setup::State::kUp &&
           answerer->setup.state() == Setup::State::kUp;
  }

  std::uint64_t now = 1000 * kMs;
  std::uint64_t next_attempt = 100;
  bool deaf = false;
  std::unique_ptr<Side> offerer;
  std::unique_ptr<Side> answerer;
};

// Why: before macOS 26.3 messages of several frames are not trusted, and two Macs may differ. How:
// whichever side is the older, both must end with messages of one frame, without a pause.
TEST_F(SetupTest, AgreesOnMessagesThatBothDevicesSupport) {
  const Limits earlier = AppleLimits("26.2.1");
  ASSERT_EQ(earlier.message_bytes_max, apple::kFrameBytes);
  for (const bool offerers : {true, false}) {
    Run(offerers ? earlier : Limits(), offerers ? Limits() : earlier);
    EXPECT_TRUE(BothUp()) << offerers << " " << offerer->setup.detail();
    EXPECT_EQ(offerer->shape.message_bytes, apple::kFrameBytes);
    EXPECT_EQ(answerer->shape.message_bytes, apple::kFrameBytes);
  }
  // A refused size is not offered again.
  EXPECT_EQ(offerer->dropped.size(), 1u);
}

// Why: a neighbour's number must not set a limit here, neither too high nor zero.
TEST_F(SetupTest, RefusesInvalidMessageSizes) {
  for (const std::uint32_t bytes : {0u, 4095u, Limits().message_bytes, 1u << 30}) {
    deaf = true;
    Run();
    RailSetup refusal{};
    refusal.kind = SetupKind::kRefuse;
    refusal.attempt = offerer->setup.attempt();
    refusal.services = kSmallerMessages;
    refusal.message_bytes = bytes;
    offerer->setup.OnMessage(refusal, now);
    Wait(Setup::kPauseNsMin);
    EXPECT_EQ(offerer->shape.message_bytes, Limits().message_bytes) << bytes;
  }
}

TEST(AppleLimitsTest, TakeSeveralFramesAMessageFromMacos263On) {
  for (const char* const one : {"26.2", "26.2.9", "26", "26.0", "15.7"}) {
    EXPECT_EQ(AppleLimits(one).message_bytes, apple::kFrameBytes) << one;
  }
  for (const char* const several : {"26.3", "26.10", "26.3.1", "27", "27.0", ""}) {
    EXPECT_EQ(AppleLimits(several).message_bytes, Limits().message_bytes) << several;
  }
}

TEST_F(SetupTest, MakesARailOfOneAttemptOnBothSides) {
  Run();
  EXPECT_TRUE(BothUp());
  EXPECT_EQ(offerer->rails, answerer->rails);
  ASSERT_EQ(offerer->rails.size(), 1u);
  EXPECT_EQ(offerer->to, 22u);
  EXPECT_EQ(answerer->to, 11u);
  EXPECT_EQ(offerer->setup.detail(), "");
}

// Why: a side that sends before the other has posted its receives would lose the message.
TEST_F(SetupTest, NeitherSideHasARailBeforeTheOtherHasConnected) {
  Make();
  answerer->hangs = true;
  Settle();
  EXPECT_TRUE(offerer->rails.empty());
  answerer->hangs = false;
  offerer->hangs = true;
  Settle();
  EXPECT_EQ(answerer->setup.state(), Setup::State::kAnswered);
  EXPECT_TRUE(answerer->rails.empty()) << "the offerer has not connected";
  offerer->hangs = false;
  Settle();
  EXPECT_TRUE(BothUp());
}

TEST_F(SetupTest, AgreesOnReliableServiceOnlyWhereBothHaveIt) {
  Run(LinuxLimits(), LinuxLimits());
  EXPECT_TRUE(BothUp());
  EXPECT_EQ(answerer->shape.service, Service::kReliable);

  Run(LinuxLimits(), Limits());  // The offerer receives the reason, and offers the other at once.
  EXPECT_TRUE(BothUp());
  EXPECT_EQ(offerer->shape.service, Service::kUnreliable);
  EXPECT_EQ(offerer->rails.size(), 1u);

  Run(Limits(), LinuxLimits());
  EXPECT_TRUE(BothUp());
  EXPECT_EQ(answerer->shape.service, Service::kUnreliable);
}

// Why: only making a queue pair shows what a device supports; configurations may not know.
TEST_F(SetupTest, FallsBackToUnreliableServiceIfADriverHasNoOther) {
  for (const bool at_offerer : {true, false}) {
    Make(LinuxLimits(), LinuxLimits());
    (at_offerer ? offerer : answerer)->unreliable_only = true;
    Settle();
    EXPECT_TRUE(BothUp()) << offerer->setup.detail() << "; " << answerer->setup.detail();
    EXPECT_EQ(offerer->shape.service, Service::kUnreliable);
    EXPECT_EQ(answerer->shape.service, Service::kUnreliable);
  }
}

// Why: messages lie in pinned memory, and a neighbour's numbers must not decide how much.
TEST_F(SetupTest, UsesNoMoreMemoryThanItsOwnLimitsAllow) {
  Limits large;
  large.message_bytes = 4 * Limits().message_bytes;
  large.messages_max = 4000;
  Make(large, Limits());
  offerer->receives = answerer->receives = Limits().messages_max / 4;
  Settle();
  EXPECT_TRUE(BothUp());
  EXPECT_EQ(answerer->shape.message_bytes, large.message_bytes);
  EXPECT_EQ(answerer->shape.messages, Limits().messages_max / 4);

  large.message_bytes = 16 * 1024 * 1024 - 4096;
  Run(large, Limits());
  EXPECT_FALSE(BothUp());
  EXPECT_FALSE(answerer->making);
  EXPECT_NE(offerer->setup.detail().find("the other side: messages of 16773120 bytes"),
            std::string::npos)
      << offerer->setup.detail();
}

// Why: a rail that exists on one side only accepts messages that never arrive, without any
// notification.
TEST_F(SetupTest, BothSidesGiveUpIfOneCannotAddTheRail) {
  for (const bool at_offerer : {true, false}) {
    Make();
    (at_offerer ? offerer : answerer)->added = absl::AbortedError("there is one already");
    Settle();
    EXPECT_EQ(offerer->setup.state(), Setup::State::kIdle);
    EXPECT_EQ(answerer->setup.state(), Setup::State::kIdle);
    EXPECT_FALSE(offerer->dropped.empty());
    EXPECT_FALSE(answerer->dropped.empty());
  }
}

TEST_F(SetupTest, BothSidesReportWhyAndRetryWithGrowingPauses) {
  Make();
  answerer->make_status = rail::WithReason(absl::ResourceExhaustedError("no queue pair left"),
                                           LinkReason::kDeviceExhausted);
  Settle();
  EXPECT_EQ(answerer->setup.detail(), "no queue pair left");
  EXPECT_EQ(offerer->setup.detail(), "the other side: no queue pair left");
  for (const Side* side : {offerer.get(), answerer.get()}) {
    EXPECT_EQ(side->setup.reason(), LinkReason::kDeviceExhausted);
    EXPECT_EQ(side->setup.peers_reason(), side == offerer.get());
  }
  EXPECT_EQ(offerer->dropped.size(), 1u);
  std::uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t pause = offerer->setup.deadline_ns() - now;
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, Setup::kPauseNsMax);
    last = pause;
    Wait(pause);
  }
  EXPECT_EQ(last, Setup::kPauseNsMax);
  answerer->make_status = absl::OkStatus();
  Wait(Setup::kPauseNsMax);
  EXPECT_TRUE(BothUp());
}

TEST_F(SetupTest, GivesUpOnADriverThatDoesNotAnswer) {
  for (const bool at_offerer : {true, false}) {
    Make();
    Side& hung = at_offerer ? *offerer : *answerer;
    hung.hangs = true;
    Settle();
    Wait(Setup::kAttemptNs);
    EXPECT_EQ(hung.setup.state(), Setup::State::kIdle);
    // The offering side waits as long for the answer as the answering side for its driver.
    EXPECT_NE(hung.setup.detail().find("does not answer"), std::string::npos);
    EXPECT_NE(offerer->setup.detail().find("does not answer"), std::string::npos);
    if (at_offerer) {
      EXPECT_EQ(hung.setup.reason(), LinkReason::kDriverSilent);
      EXPECT_FALSE(hung.setup.peers_reason());
    }
    // The call returns after all, but its result is no longer needed.
    hung.setup.OnMade(QueuePairAddress{}, now);
    EXPECT_EQ(hung.setup.state(), Setup::State::kIdle);
  }
}

TEST_F(SetupTest, GivesUpOnAPeerThatDoesNotAnswer) {
  deaf = true;
  Run();
  EXPECT_EQ(offerer->setup.state(), Setup::State::kOffered);
  Wait(Setup::kAttemptNs);
  EXPECT_EQ(offerer->setup.detail(), "the other side does not answer");
  EXPECT_EQ(offerer->setup.reason(), LinkReason::kNotMade);
  EXPECT_FALSE(offerer->setup.peers_reason()) << "the other side reported none";
  deaf = false;
  Wait(Setup::kPauseNsMax);
  EXPECT_TRUE(BothUp());
}

TEST_F(SetupTest, MakesTheRailAgainAfterItEndedOnEitherSide) {
  for (const bool at_offerer : {true, false}) {
    Run();
    ASSERT_TRUE(BothUp());
    Side& seen_by = at_offerer ? *offerer : *answerer;
    Side& other = at_offerer ? *answerer : *offerer;
    seen_by.setup.OnRailGone(now);
    Settle();
    EXPECT_EQ(other.dropped.size(), 1u) << "it received the report, and dropped its own rail";
    Wait(Setup::kPauseNsMin);
    EXPECT_TRUE(BothUp());
    EXPECT_EQ(offerer->rails.size(), 2u);
  }
}

// Why: the message that the rail has ended may be lost with the channel; then the offer reveals it.
TEST_F(SetupTest, TreatsANewOfferAsTheEndOfItsRail) {
  Run();
  ASSERT_TRUE(BothUp());
  deaf = true;
  offerer->setup.OnRailGone(now);
  Settle();
  deaf = false;
  EXPECT_EQ(answerer->setup.state(), Setup::State::kUp);
  Wait(Setup::kPauseNsMin);
  EXPECT_EQ(answerer->dropped, std::vector<std::uint64_t>{offerer->rails[0]});
  EXPECT_TRUE(BothUp());
}

TEST_F(SetupTest, StartsAgainOnTryNow) {
  Run();
  ASSERT_TRUE(BothUp());
  offerer->setup.Abandon();
  answerer->setup.Abandon();
  EXPECT_EQ(offerer->dropped.size(), 1u);
  EXPECT_EQ(answerer->dropped.size(), 1u);
  Settle();
  EXPECT_TRUE(BothUp());
}

// Why: it comes from a key holder, but a wrong number must not reach a driver.
TEST_F(SetupTest, RefusesInvalidOffers) {
  const auto taken = [](const std::function<void(RailSetup&)>& change) {
    Side side(false, Limits());
    RailSetup offer{};
    offer.kind = SetupKind::kOffer;
    offer.attempt = 7;
    offer.message_bytes = 20480;
    offer.messages = 32;
    offer.address = {.number = 11, .receives = 32, .mtu_bytes = 1024};
    change(offer);
    side.setup.OnMessage(offer, 0);
    return side.making;
  };
  EXPECT_TRUE(taken([](auto&) {}));
  EXPECT_FALSE(taken([](auto& offer) { offer.attempt = 0; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.message_bytes = 100; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.message_bytes = 17'000'000; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.messages = 1; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.address.receives = 33; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.address.number = 1u << 24; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.address.first_packet = 1u << 24; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.address.mtu_bytes = 100; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.services = 2; }));
  EXPECT_FALSE(taken([](auto& offer) { offer.kind = static_cast<SetupKind>(99); }));
}

}  // namespace
}  // namespace mlxcomm::rdma::setup_test
