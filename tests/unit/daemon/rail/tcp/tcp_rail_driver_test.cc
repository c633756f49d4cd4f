// Which thread drives a rail, and that nothing is lost when it changes: one rail with a watch at
// one end of a socket, the test's own bytes at the other. The test plays the loop.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/platform/machine.h"
#include "tests/unit/daemon/rail/tcp/one_rail.h"
#include "tests/unit/never.h"

namespace mlxcomm::rail::tcp_rail_driver_test {
namespace {

// The number of frames moved by the loop, and by the rail's thread.
struct Moved {
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  std::atomic<int> data{0};
};
class MovedBy final : public RailObserver {
 public:
  MovedBy(Moved& loop, Moved& thread) : loop_(loop), thread_(thread) {}
  void OnSent(const wire::FrameHeader& header, std::uint64_t, std::uint64_t) override {
    if (header.sequence != 0) ++Who(header).sent;
  }
  void OnReceived(const wire::FrameHeader& header, std::uint64_t, std::uint64_t) override {
    ++Who(header).received;
  }

 private:
  Moved& Who(const wire::FrameHeader& header) {
    Moved& who = std::this_thread::get_id() == test_ ? loop_ : thread_;
    if (header.type == wire::FrameType::kData) ++who.data;
    return who;
  }
  const std::thread::id test_ = std::this_thread::get_id();
  Moved& loop_;
  Moved& thread_;
};

class TcpRailDriverTest : public OneRailTest {
 protected:
  void SetUp() override { Make(queue::Scheduling::kManyCores); }
  void Make(queue::Scheduling scheduling) {
    MakeRail(watches_.Take(), scheduling);
    rail_->Observe(std::make_unique<MovedBy>(by_loop_, by_thread_));
  }
  // Destroyed before what it uses.
  void TearDown() override { rail_.reset(); }

  void SendFromFar(const wire::FrameHeader& header, int fill = 0) {
    OneRailTest::SendFromFar(FrameBytes(header, fill));
  }
  // The frame that reports the corruption; no other may precede it.
  RailEvent NextAbandoned() {
    RailEvent event;
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    while (event.link_reason != LinkReason::kBytesChanged && platform::MonotonicNow() < deadline) {
      event = {};
      if (!rail_->Pop(event)) Sleep();
      EXPECT_FALSE(event.placed);
    }
    return event;
  }
  bool Give(const wire::FrameHeader& header, const std::byte* payload = nullptr) {
    RailCommand command;
    command.frame = {header, payload};
    return rail_->Give(command);
  }
  // Acts as the loop: takes turns, and sleeps in the io_context or on the bell when idle.
  RailEvent AwaitNext(RailEvent::Kind kind) {
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    RailEvent event;
    while (platform::MonotonicNow() < deadline) {
      while (rail_->Pop(event)) {
        transmitted_ += event.transmitted;
        if (event.kind == kind) return event;
        if (event.kind == RailEvent::Kind::kDown) {
          ADD_FAILURE() << event.reason;
          return {};
        }
      }
      Sleep();
    }
    ADD_FAILURE() << "the event does not arrive";
    return {};
  }
  void Sleep() {
    if (!rail_->PrepareToSleep()) return;
    ++sleeps_;
    // Both end the loop's sleep; each ends the wait for the other.
    io_.restart();
    while (io_.run_one_for(std::chrono::milliseconds(1)) == 0) {
      pollfd bell = {bell_.descriptor(), POLLIN, 0};
      if (::poll(&bell, 1, 0) > 0) break;
      if (tired_ && tired_()) break;
      io_.restart();
    }
    bell_.Drain();
    rail_->WakeUp();
  }
  void PostReceive(std::vector<std::byte>& target, std::uint64_t number) {
    RailCommand command;
    command.kind = RailCommand::Kind::kPostReceive;
    command.receive.key.number = number;
    command.receive.bytes = target.size();
    command.receive.destination = target.data();
    command.share = budgets_.emplace_back().Open(target.size());
    ASSERT_TRUE(rail_->Give(command));
  }

  asio::io_context io_;
  SocketWatches watches_{io_};
  Moved by_loop_, by_thread_;
  std::function<bool()> tired_;
  int sleeps_ = 0;
};

// Why: waking a thread for a small frame costs as much as the frame.
TEST_F(TcpRailDriverTest, TheLoopWritesAndReadsSmallFramesItself) {
  Start();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(Give(Header(wire::FrameType::kGrant, i)));
    EXPECT_EQ(ReadAtFar().sequence, i);  // It needed no turn.
    SendFromFar(Header(wire::FrameType::kEager, i, 1000), static_cast<int>(i));
    const RailEvent event = AwaitNext(RailEvent::Kind::kFrame);
    EXPECT_EQ(event.header.sequence, i);
    ASSERT_EQ(event.payload.size(), 1000u);
    EXPECT_EQ(event.payload.back(), static_cast<std::byte>(i));
  }
  while (transmitted_ < 100) AwaitNext(RailEvent::Kind::kTransmitted);
  rail_->Stop();
  EXPECT_EQ(by_loop_.sent, 100);
  EXPECT_EQ(by_loop_.received, 100);
}

// Why: a holder of the key may make any number of rails; those with little traffic cost no thread.
TEST_F(TcpRailDriverTest, HasNoThreadForSmallFramesNorForItsEnd) {
  Start();
  for (std::uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(Give(Header(wire::FrameType::kGrant, i)));
    SendFromFar(Header(wire::FrameType::kEager, i, 1000));
    AwaitNext(RailEvent::Kind::kFrame);
  }
  EXPECT_FALSE(rail_->has_thread());
  rail_->Stop();
  RailEvent event;
  while (rail_->Pop(event) && event.kind != RailEvent::Kind::kDown) {
  }
  EXPECT_EQ(event.kind, RailEvent::Kind::kDown);
  EXPECT_EQ(event.cause, DownCause::kCut);
  EXPECT_FALSE(rail_->has_thread());
}

// Why: no operation waits for a thread if it is known that there will be operations.
TEST_F(TcpRailDriverTest, HasItsThreadOncePreparedForLargeData) {
  Start();
  rail_->Prepare();
  EXPECT_TRUE(rail_->has_thread());
  SendFromFar(Header(wire::FrameType::kEager, 1, 1000));
  EXPECT_EQ(AwaitNext(RailEvent::Kind::kFrame).header.sequence, 1u);
  rail_->Stop();
  EXPECT_EQ(by_loop_.received, 1);
}

// Why: data that is sent while the loop sleeps must wake it, and so must data that arrived just
// before.
TEST_F(TcpRailDriverTest, TheSocketEndsTheLoopsSleep) {
  Start();
  std::thread far([this] {
    for (std::uint64_t i = 1; i <= 200; ++i) {
      SendFromFar(Header(wire::FrameType::kGrant, i));
      if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (std::uint64_t i = 1; i <= 200; ++i) {
    ASSERT_EQ(AwaitNext(RailEvent::Kind::kFrame).header.sequence, i);
  }
  far.join();
  EXPECT_GT(sleeps_, 0);
}

// Why: a link of several rails chooses by this, even while the thread drives the socket.
// How: the thread writes frame after frame; the answer to a request comes with one of the next.
TEST_F(TcpRailDriverTest, ReportsWhatTheKernelHoldsOnceAsked) {
  Start();
  const std::vector<std::byte> source(300'000, std::byte{9});
  std::optional<HeldBytes> held;
  const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
  for (std::uint64_t sequence = 1; !held; ++sequence) {
    ASSERT_LT(platform::MonotonicNow(), deadline);
    ASSERT_TRUE(Give(Header(wire::FrameType::kData, sequence, 300'000), source.data()));
    held = rail_->held();
    EXPECT_EQ(ReadAtFar().sequence, sequence);
  }
  rail_->Stop();  // The far side may have read the last frame before its write returns.
  EXPECT_LE(held->bytes, 2 * source.size());
  EXPECT_LE(held->at_ns, platform::MonotonicNow());
  EXPECT_EQ(by_loop_.data, 0);
}

// Why: the loop never places or sends large payload, whichever thread drives; afterwards it drives
// small frames again.
// How: small frames and large data in turn, with pauses in which the rail returns to the loop.
TEST_F(TcpRailDriverTest, TheThreadMovesLargeDataAndSmallFramesReturnToTheLoop) {
  Start();
  std::uint64_t ours = 0, theirs = 0;
  std::vector<std::byte> target(300'000), source(300'000, std::byte{9});
  for (std::uint64_t round = 1; round <= 20; ++round) {
    std::fill(target.begin(), target.end(), std::byte{0});
    PostReceive(target, 5);
    ASSERT_TRUE(Give(Header(wire::FrameType::kData, ++ours, 300'000), source.data()));
    std::thread far([&] {
      EXPECT_EQ(ReadAtFar().payload_bytes, 300'000u);
      SendFromFar(Header(wire::FrameType::kData, ++theirs, 300'000), static_cast<int>(round));
    });
    const RailEvent event = AwaitNext(RailEvent::Kind::kFrame);
    EXPECT_TRUE(event.placed);
    EXPECT_EQ(target.front(), static_cast<std::byte>(round));
    EXPECT_EQ(target.back(), static_cast<std::byte>(round));
    far.join();
    // Until the loop drives it: then a frame has been written when Give returns.
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    for (bool came_back = false; !came_back;) {
      ASSERT_LT(platform::MonotonicNow(), deadline);
      tired_ = [until = platform::MonotonicNow() + 5'000'000] {
        return platform::MonotonicNow() > until;
      };
      RailEvent other;
      while (rail_->Pop(other)) continue;
      Sleep();
      while (rail_->Pop(other)) continue;
      ASSERT_TRUE(Give(Header(wire::FrameType::kGrant, ++ours)));
      wire::FrameHeader read;
      came_back = ::recv(far_.get(), &read, sizeof read, MSG_DONTWAIT) > 0;
      if (!came_back) {
        // The thread may return the rail without writing it: then the loop's next turn does.
        pollfd readable = {far_.get(), POLLIN, 0};
        while (::poll(&readable, 1, 1) == 0 && platform::MonotonicNow() < deadline) {
          while (rail_->Pop(other)) continue;
        }
        read = ReadAtFar();
      }
      EXPECT_EQ(read.sequence, ours);
    }
  }
  EXPECT_EQ(by_loop_.data, 0);
  EXPECT_EQ(by_thread_.data, 40);
}

// Why: if cores are scarce no thread runs beside the loop, and handing over only costs time. How:
// large data in both directions at once, more than the socket takes, with sizes at which no read
// ends.
TEST_F(TcpRailDriverTest, TheLoopMovesLargeDataIfCoresAreFew) {
  Make(queue::Scheduling::kFewCores);
  Start();
  rail_->Prepare();
  constexpr std::uint64_t kFrames = 20;
  constexpr std::uint32_t kBytes = 900'001;
  std::vector<std::byte> source(kBytes, std::byte{9});
  std::vector<std::vector<std::byte>> targets(kFrames, std::vector<std::byte>(kBytes));
  for (std::uint64_t i = 1; i <= kFrames; ++i) {
    PostReceive(targets[i - 1], i);
    ASSERT_TRUE(Give(Header(wire::FrameType::kData, i, kBytes), source.data()));
  }
  std::thread far([&] {
    for (std::uint64_t i = 1; i <= kFrames; ++i) {
      EXPECT_EQ(ReadAtFar().sequence, i);
      wire::FrameHeader header = Header(wire::FrameType::kData, i, kBytes);
      header.number = i;
      SendFromFar(header, static_cast<int>(i));
    }
  });
  for (std::uint64_t i = 1; i <= kFrames; ++i) {
    EXPECT_TRUE(AwaitNext(RailEvent::Kind::kFrame).placed);
    EXPECT_EQ(targets[i - 1].front(), static_cast<std::byte>(i));
    EXPECT_EQ(targets[i - 1].back(), static_cast<std::byte>(i));
  }
  while (transmitted_ < kFrames) AwaitNext(RailEvent::Kind::kTransmitted);
  far.join();
  EXPECT_EQ(by_loop_.data, 2 * static_cast<int>(kFrames));
  EXPECT_FALSE(rail_->has_thread());
}

// Why: the loop never waits for a socket, and must not poll a full one repeatedly; when it has
// room, nothing else would notice.
// How: the far side does not read until the loop sleeps with waiting data; then it reads all.
TEST_F(TcpRailDriverTest, TheLoopSleepsWhileTheSocketIsFullAndContinuesWhenItHasRoom) {
  Make(queue::Scheduling::kFewCores);
  Start();
  constexpr std::uint64_t kFrames = 8;
  const std::vector<std::byte> payload(wire::kChunkBytesMax, std::byte{3});
  for (std::uint64_t i = 1; i <= kFrames; ++i) {
    ASSERT_TRUE(Give(Header(wire::FrameType::kData, i, wire::kChunkBytesMax), payload.data()));
  }
  const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
  RailEvent event;
  while (!rail_->PrepareToSleep()) {
    ASSERT_LT(platform::MonotonicNow(), deadline);
    while (rail_->Pop(event)) transmitted_ += event.transmitted;
  }
  rail_->WakeUp();
  ASSERT_LT(transmitted_, kFrames);
  std::thread far([&] {
    for (std::uint64_t i = 1; i <= kFrames; ++i) EXPECT_EQ(ReadAtFar().sequence, i);
  });
  while (transmitted_ < kFrames) AwaitNext(RailEvent::Kind::kTransmitted);
  far.join();
  EXPECT_GT(sleeps_, 0);
  EXPECT_EQ(by_loop_.data, static_cast<int>(kFrames));
}

// Why: the loop never waits for a socket.
TEST_F(TcpRailDriverTest, TheThreadWritesWhatTheSocketDoesNotTake) {
  Start();
  constexpr std::uint64_t kFrames = 500;
  const std::vector<std::byte> payload(wire::kEagerBytesMax, std::byte{3});
  std::thread far;
  std::uint64_t given = 0;
  while (given < kFrames) {
    if (Give(Header(wire::FrameType::kEager, given + 1, wire::kEagerBytesMax), payload.data())) {
      ++given;
    }
    // The far side does not read until then.
    if (given == 300 && !far.joinable()) {
      far = std::thread([this] {
        for (std::uint64_t i = 1; i <= kFrames; ++i) ASSERT_EQ(ReadAtFar().sequence, i);
      });
    }
    RailEvent event;
    while (rail_->Pop(event)) transmitted_ += event.transmitted;
  }
  while (transmitted_ < kFrames) AwaitNext(RailEvent::Kind::kTransmitted);
  far.join();
}

// Why: nothing else would notice.
TEST_F(TcpRailDriverTest, TheLoopFindsTheEndAndGarbage) {
  Start();
  SendFromFar(Header(wire::FrameType::kGrant, 1));
  far_.Reset();
  EXPECT_EQ(AwaitNext(RailEvent::Kind::kFrame).header.sequence, 1u);
  const RailEvent down = AwaitNext(RailEvent::Kind::kDown);
  EXPECT_EQ(down.cause, DownCause::kReset);
  rail_->Stop();
  EXPECT_EQ(rail_->KeepEnd(), nullptr);
}

// Why: a system call costs more than a small frame, and an operation has several; but the peer may
// wait for a grant.
// How: what the far side has after each.
TEST_F(TcpRailDriverTest, SendsEagerFramesOfOneTurnTogetherAndAGrantAtOnce) {
  Start();
  const std::vector<std::byte> payload(100);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(Give(Header(wire::FrameType::kEager, i, 100), payload.data()));
  }
  std::byte any;
  EXPECT_EQ(::recv(far_.get(), &any, 1, MSG_DONTWAIT), -1);
  EXPECT_FALSE(rail_->PrepareToSleep()) << "something is unwritten";
  RailEvent event;
  while (rail_->Pop(event)) continue;
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_EQ(ReadAtFar().sequence, i);
  ASSERT_TRUE(Give(Header(wire::FrameType::kGrant, 5)));
  EXPECT_EQ(ReadAtFar().sequence, 5u);
}

TEST_F(TcpRailDriverTest, StopAndFinishWorkWhicheverThreadDrives) {
  for (const auto& [side, heavy] : {std::pair(queue::Scheduling::kManyCores, false),
                                    std::pair(queue::Scheduling::kManyCores, true),
                                    std::pair(queue::Scheduling::kFewCores, true)}) {
    Make(side);
    Start();
    std::vector<std::byte> target(100'000);
    if (heavy) PostReceive(target, 5);
    ASSERT_TRUE(Give(Header(wire::FrameType::kGrant, 1)));
    ASSERT_TRUE(Give(Header(wire::FrameType::kGrant, 2)));
    rail_->Finish();
    EXPECT_EQ(ReadAtFar().sequence, 1u);
    EXPECT_EQ(ReadAtFar().sequence, 2u);
    std::byte any;
    EXPECT_EQ(::recv(far_.get(), &any, 1, 0), 0);
    far_.Reset();
    rail_->Stop();
    AwaitNext(RailEvent::Kind::kDown);
  }
}

// Why: whichever thread reads, no corrupt byte may count; and the loop, which never waits for the
// socket, must report it to the peer.
TEST_F(TcpRailDriverTest, AFlippedBitEndsARailThatTheLoopDrives) {
  Make(queue::Scheduling::kFewCores);
  constexpr std::uint32_t kBytes = 100'000;
  std::vector<std::byte> target(kBytes);
  Start();
  PostReceive(target, 5);
  std::vector<std::byte> bytes = FrameBytes(Header(wire::FrameType::kData, 1, kBytes), 7);
  bytes[sizeof(wire::FrameHeader) + kBytes / 2] ^= std::byte{4};
  OneRailTest::SendFromFar(bytes);
  const RailEvent changed = NextAbandoned();
  EXPECT_EQ(changed.kind, RailEvent::Kind::kTransmitted) << "it is requested; the rail continues";
  EXPECT_EQ(changed.abandoned, 1u);
  EXPECT_EQ(claims_.Take(1), ArrivalClaims::Claim::kOurs) << "it will be sent again";
  bytes = FrameBytes(Header(wire::FrameType::kGrant, 2));
  bytes[20] ^= std::byte{4};
  OneRailTest::SendFromFar(bytes);
  const RailEvent down = NextAbandoned();
  EXPECT_EQ(down.kind, RailEvent::Kind::kDown);
  EXPECT_EQ(down.cause, DownCause::kCut);
  const wire::FrameHeader reported = ReadAtFar();
  EXPECT_EQ(reported.type, wire::FrameType::kGivenUp);
  EXPECT_EQ(reported.tag, static_cast<std::uint32_t>(LinkReason::kBytesChanged));
}

// Why: the fabric's orderly end runs without the io_context, so there are no socket events.
TEST_F(TcpRailDriverTest, TheThreadDrivesOnceTheWatchesAreRetired) {
  Start();
  SendFromFar(Header(wire::FrameType::kGrant, 1));
  AwaitNext(RailEvent::Kind::kFrame);
  watches_.Retire();
  RailEvent event;
  for (int turn = 0; turn < 2; ++turn) {
    while (rail_->Pop(event)) continue;
  }
  SendFromFar(Header(wire::FrameType::kHeartbeat, 0));
  EXPECT_EQ(ReadAtFar().type, wire::FrameType::kEcho);  // Without a turn.
  ASSERT_TRUE(Give(Header(wire::FrameType::kGrant, 1)));
  EXPECT_EQ(ReadAtFar().sequence, 1u);
}

}  // namespace
}  // namespace mlxcomm::rail::tcp_rail_driver_test
