// What a process may send on its control connection, frame by frame; the test sets the time.
#include "daemon/intake/guard/frame_meter.h"

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace mlxcomm::guard::frame_meter_test {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum : std::uint8_t {
  kData,
  kHeaders,
  kPriority,
  kReset,
  kSettings,
  kPush,
  kPing,
  kGoAway,
  kWindow,
  kContinuation,
  kUnknown = 200
};
constexpr std::uint8_t kEndHeaders = 4;

std::string Header(std::size_t length, std::uint8_t type, std::uint8_t flags = 0,
                   std::uint32_t stream = 0) {
  std::string header;
  for (const int shift : {16, 8, 0}) header += static_cast<char>(length >> shift & 0xff);
  header += static_cast<char>(type);
  header += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(stream >> shift & 0xff);
  return header;
}

std::string Frame(std::uint8_t type, std::size_t length, std::uint8_t flags = 0,
                  std::uint32_t stream = 0) {
  return Header(length, type, flags, stream) + std::string(length, '\xee');
}

// The way gRPC's clients begin and call: headers, the request, more window, a ping, and its
// answers' ends.
std::string Beginning() {
  return kPreface + Frame(kSettings, 24) + Frame(kWindow, 4) + Frame(kSettings, 0, 1);
}
std::string Call(std::uint32_t stream) {
  return Frame(kHeaders, 300, kEndHeaders, stream) + Frame(kData, 40, 1, stream) +
         Frame(kWindow, 4);
}

std::string Answers(std::uint32_t stream) {
  return Frame(kHeaders, 90, kEndHeaders, stream) + Frame(kData, 2'000, 0, stream) +
         Frame(kHeaders, 40, kEndHeaders | 1, stream);
}

class FrameMeterTest : public testing::Test {
 protected:
  EndReason Take(FrameMeter& meter, const std::string& bytes) {
    return meter.Take(std::as_bytes(std::span(bytes)), now_);
  }
  void Answer(FrameMeter& meter, const std::string& bytes) {
    meter.TakeAnswers(std::as_bytes(std::span(bytes)));
  }
  EndReason Take(const std::string& bytes) { return Take(*meter_, bytes); }
  // How many of them pass until the connection ends, and why; at most `most`.
  std::pair<std::size_t, EndReason> Repeat(const std::string& frame, std::size_t most = 1'000) {
    EndReason reason = Take(Beginning());
    std::size_t passed = 0;
    while (reason == EndReason::kNone && passed < most) {
      reason = Take(frame);
      if (reason == EndReason::kNone) ++passed;
    }
    return {passed, reason};
  }

  std::uint64_t now_ = kSecond;
  UserMeter user_{now_};
  std::optional<FrameMeter> meter_{std::in_place, user_, now_};
};

TEST_F(FrameMeterTest, LetsAClientCallForAsLongAsItLikes) {
  ASSERT_EQ(Take(Beginning()), EndReason::kNone);
  for (std::uint32_t call = 0; call < 20'000; ++call) {
    ASSERT_EQ(Take(Call(2 * call + 1)), EndReason::kNone);
    Answer(*meter_, Answers(2 * call + 1));
    if (call % 100 == 0) {
      ASSERT_EQ(Take(Frame(kPing, 8) + Frame(kReset, 4, 0, 1)), EndReason::kNone);
    }
    ASSERT_EQ(user_.WaitNs(now_), 0u);
    now_ += kSecond / 1000;
  }
}

// Why: a read ends anywhere, even within a header.
TEST_F(FrameMeterTest, ReadsFramesHoweverTheyAreCut) {
  const std::string bytes = Beginning() + Call(1) + Call(3) + Frame(kPing, 8);
  for (const char byte : bytes) ASSERT_EQ(Take(std::string(1, byte)), EndReason::kNone);
  FrameMeter whole(user_, now_);
  EXPECT_EQ(Take(whole, bytes), EndReason::kNone);
}

TEST_F(FrameMeterTest, EndsWhatIsNoHttp2) {
  EXPECT_EQ(Take("GET / HTTP/1.1\r\n"), EndReason::kBroken);
  FrameMeter later(user_, now_);
  EXPECT_EQ(Take(later, kPreface.substr(0, 10)), EndReason::kNone);
  EXPECT_EQ(Take(later, "x"), EndReason::kBroken);
}

// Why: gRPC keeps several KiB for each ping beyond its own limit, and answers each SETTINGS.
TEST_F(FrameMeterTest, EndsAFloodOfEachKindOfFrame) {
  const auto burst = [](Rate rate) { return static_cast<std::size_t>(rate.burst); };
  const auto ended = [this](const std::string& frame) {
    meter_.emplace(user_, now_);
    return Repeat(frame);
  };
  EXPECT_EQ(ended(Frame(kPing, 8)), std::pair(burst(FrameMeter::kPings), EndReason::kPings));
  // Two of them were in the beginning.
  EXPECT_EQ(ended(Frame(kSettings, 0)),
            std::pair(burst(FrameMeter::kSettings) - 2, EndReason::kSettings));
  EXPECT_EQ(ended(Frame(kReset, 4, 0, 1)),
            std::pair(burst(FrameMeter::kResets), EndReason::kResets));
  for (const std::uint8_t type : {kPriority, kPush, kGoAway, kUnknown}) {
    EXPECT_EQ(ended(Frame(type, 5)),
              std::pair(burst(FrameMeter::kOthers), EndReason::kOtherFrames));
  }
}

TEST_F(FrameMeterTest, LetsPingsPassAgainAsTimePasses) {
  EXPECT_EQ(Repeat(Frame(kPing, 8), 64).second, EndReason::kNone);
  now_ += kSecond;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Take(Frame(kPing, 8)), EndReason::kNone);
  EXPECT_EQ(Take(Frame(kPing, 8)), EndReason::kPings);
}

TEST_F(FrameMeterTest, EndsHeadersThatAreTooLongInOneOrManyFrames) {
  const std::size_t most = FrameMeter::kHeaderBlockBytesMax;
  ASSERT_EQ(Take(Beginning() + Frame(kHeaders, most, kEndHeaders, 1)), EndReason::kNone);
  ASSERT_EQ(Take(Frame(kHeaders, most - 10, 0, 3) + Frame(kContinuation, 10, kEndHeaders, 3)),
            EndReason::kNone);
  const FrameMeter before = *meter_;
  EXPECT_EQ(Take(Header(most + 1, kHeaders, kEndHeaders, 5)), EndReason::kLongHeaders);
  meter_.emplace(before);
  EXPECT_EQ(Take(Frame(kHeaders, most - 10, 0, 5) + Header(11, kContinuation, kEndHeaders, 5)),
            EndReason::kLongHeaders);
  meter_.emplace(before);
  std::string empty = Frame(kHeaders, 10, 0, 5);
  for (std::uint32_t i = 0; i < FrameMeter::kContinuationsMax; ++i)
    empty += Frame(kContinuation, 0, 0, 5);
  EXPECT_EQ(Take(empty), EndReason::kNone);
  EXPECT_EQ(Take(Frame(kContinuation, 0, 0, 5)), EndReason::kLongHeaders);
}

TEST_F(FrameMeterTest, EndsFramesThatBreakAHeaderBlock) {
  ASSERT_EQ(Take(Beginning()), EndReason::kNone);
  const FrameMeter before = *meter_;
  for (const std::string& broken :
       {Frame(kContinuation, 1, kEndHeaders, 1), Frame(kHeaders, 1, kEndHeaders, 0),
        Frame(kHeaders, 1, 0, 1) + Frame(kContinuation, 1, 0, 3),
        Frame(kHeaders, 1, 0, 1) + Frame(kPing, 8),
        Frame(kHeaders, 1, 0, 1) + Frame(kHeaders, 1, 0, 3),
        Header(FrameMeter::kFrameBytesMax + 1, kData)}) {
    meter_.emplace(before);
    EXPECT_EQ(Take(broken), EndReason::kBroken);
  }
}

// Why: gRPC keeps some 18 KiB for a call that it refuses, until it gets to it.
TEST_F(FrameMeterTest, EndsWhoMakesMoreCallsThanAreAnswered) {
  ASSERT_EQ(Take(Beginning()), EndReason::kNone);
  std::uint32_t stream = 1;
  for (std::size_t i = 0; i < FrameMeter::kOpenCallsMax; ++i, stream += 2) {
    ASSERT_EQ(Take(Call(stream)), EndReason::kNone);
  }
  EXPECT_EQ(Take(Frame(kHeaders, 5, kEndHeaders, 1)), EndReason::kNone)
      << "a call's own last headers";
  Answer(*meter_, Answers(5) + Frame(kReset, 4, 0, 9) + Frame(kData, 0, 1, 11));
  ASSERT_EQ(Take(Frame(kReset, 4, 0, 1)), EndReason::kNone);
  for (int i = 0; i < 4; ++i, stream += 2) EXPECT_EQ(Take(Call(stream)), EndReason::kNone);
  EXPECT_EQ(Take(Call(stream)), EndReason::kCalls);
}

// Why: honest processes of a user may do much together; that is slowed, not ended.
TEST_F(FrameMeterTest, SlowsAUserWhoseConnectionsDoTooMuchTogether) {
  ASSERT_EQ(Take(Beginning()), EndReason::kNone);
  std::uint64_t waited_ns = 0;
  for (std::uint32_t call = 0; call < 50'000; ++call) {
    ASSERT_EQ(Take(Call(2 * call + 1)), EndReason::kNone);
    Answer(*meter_, Answers(2 * call + 1));
    const std::uint64_t wait_ns = user_.WaitNs(now_);
    waited_ns += wait_ns;
    now_ += wait_ns;
  }
  // Ten pieces of work each; what the burst allows needs no wait.
  const double calls_s = (50'000 * 10 - UserMeter::kWork.burst) / UserMeter::kWork.per_second;
  EXPECT_NEAR(static_cast<double>(waited_ns) / 1e9, calls_s, 0.1);
  UserMeter another(now_);
  EXPECT_EQ(another.WaitNs(now_), 0u);
}

// Why: a user could end each connection just below its limits, and begin another.
TEST_F(FrameMeterTest, SlowsAUserWhoConnectsAgainAndAgain) {
  std::string pings = Beginning();
  for (int i = 0; i < 60; ++i) pings += Frame(kPing, 8);
  std::size_t connections = 0;
  while (user_.WaitNs(now_) == 0) {
    FrameMeter meter(user_, now_);
    ASSERT_EQ(Take(meter, pings), EndReason::kNone);
    ASSERT_LT(++connections, 1000u);
  }
  EXPECT_GT(connections, 100u);  // A job that starts as many processes is not slowed.
  EXPECT_FALSE(user_.IsRested(now_));
  now_ += 10 * kSecond;
  EXPECT_TRUE(user_.IsRested(now_));
}

TEST_F(FrameMeterTest, MakesNobodyWaitLongerThanSeconds) {
  const std::string much = Beginning() + Frame(kData, FrameMeter::kFrameBytesMax);
  for (int i = 0; i < 2000; ++i) {
    FrameMeter meter(user_, now_);
    ASSERT_EQ(Take(meter, much), EndReason::kNone);
  }
  EXPECT_GT(user_.WaitNs(now_), 4 * kSecond);
  EXPECT_LE(user_.WaitNs(now_), 5 * kSecond + 1);
}

}  // namespace
}  // namespace mlxcomm::guard::frame_meter_test
