// A rail that its thread drives.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/platform/machine.h"
#include "tests/unit/daemon/rail/tcp/one_rail.h"
#include "tests/unit/looks.h"
#include "tests/unit/never.h"

namespace mlxcomm::rail::tcp_rail_test {
namespace {

class TcpRailTest : public OneRailTest {
 protected:
  void SetUp() override { MakeRail(); }
  void GiveReceive(PostedReceive& receive, std::vector<std::byte>& target) {
    receive.key.number = 5;
    receive.bytes = target.size();
    receive.destination = target.data();
    rail_->Expect(receive, budgets_.emplace_back().Open(receive.bytes));
  }
  // Acts as the link: tries again while the rail is full.
  bool GiveInTime(const RailCommand& command) {
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    for (Looks looks; !rail_->Give(command); looks.Rest()) {
      if (platform::MonotonicNow() > deadline) return false;
    }
    return true;
  }
  wire::FrameHeader ReadHeader() {
    wire::FrameHeader header;
    EXPECT_EQ(::recv(far_.get(), &header, sizeof header, MSG_WAITALL),
              static_cast<ssize_t>(sizeof header));
    return header;
  }
  void GiveWithdraw() {
    RailCommand command;
    command.kind = RailCommand::Kind::kWithdraw;
    command.key.number = 5;
    ASSERT_TRUE(rail_->Give(command));
  }
};

// Why: the rail reads ahead of the loop. If the ring becomes full in the middle, not a byte may be
// skipped.
// How: far more small frames than the ring holds, sometimes taken one by one, so that room comes
// and goes.
TEST_F(TcpRailTest, LosesNoFrameWhenTheLoopIsSlow) {
  Start();
  constexpr std::uint64_t kFrames = 20'000;
  std::thread far([this] {
    std::vector<std::byte> bytes;
    for (std::uint64_t i = 1; i <= kFrames; ++i) {
      wire::FrameHeader header = Header(wire::FrameType::kEager, i, i % 3 == 0 ? 0 : 64);
      const std::vector<std::byte> frame = FrameBytes(header, static_cast<int>(i % 100));
      bytes.insert(bytes.end(), frame.begin(), frame.end());
    }
    SendFromFar(bytes);
  });
  for (std::uint64_t i = 1; i <= kFrames; ++i) {
    const RailEvent event = Next(RailEvent::Kind::kFrame);
    if (event.header.sequence != i) {
      ADD_FAILURE() << "frame " << event.header.sequence << " instead of " << i;
      far_.Reset();
      break;
    }
    for (const std::byte byte : event.payload) {
      ASSERT_EQ(byte, static_cast<std::byte>(i % 100));
    }
    if (i % 500 == 0) {
      // Until it is full again.
      const std::uint64_t before = rail_->figures().received_bytes;
      for (int look = 0; look < 100 && rail_->figures().received_bytes == before; ++look) {
        std::this_thread::yield();
      }
    }
  }
  far.join();
}

// Why: the memory of a complete receive may have another owner, so no byte may be placed beyond its
// room, and nothing of a frame that would exceed it.
TEST_F(TcpRailTest, GoesDownWhenMoreDataArrivesThanRequested) {
  std::vector<std::byte> target(1000);
  PostedReceive receive;
  GiveReceive(receive, target);
  Start();
  SendFromFar(FrameBytes(Header(wire::FrameType::kData, 1, 500), 1));
  SendFromFar(FrameBytes(Header(wire::FrameType::kData, 2, 501, 499), 2));
  Next(RailEvent::Kind::kFrame);
  const RailEvent down = Next(RailEvent::Kind::kDown);
  EXPECT_EQ(down.cause, DownCause::kViolation);
  EXPECT_EQ(target[499], std::byte{1});
  EXPECT_EQ(target[500], std::byte{0});
}

TEST_F(TcpRailTest, GoesDownWhenDataWouldLieOutside) {
  std::vector<std::byte> target(1000);
  PostedReceive receive;
  GiveReceive(receive, target);
  Start();
  SendFromFar(FrameBytes(Header(wire::FrameType::kData, 1, 500, ~std::uint64_t{0} - 100), 1));
  EXPECT_EQ(Next(RailEvent::Kind::kDown).cause, DownCause::kViolation);
}

TEST_F(TcpRailTest, GoesDownOnUnrequestedData) {
  Start();
  SendFromFar(FrameBytes(Header(wire::FrameType::kData, 1, 500), 1));
  EXPECT_EQ(Next(RailEvent::Kind::kDown).cause, DownCause::kCut);
}

TEST_F(TcpRailTest, DropsDataOfAWithdrawnOperation) {
  std::vector<std::byte> target(1000);
  PostedReceive receive;
  GiveReceive(receive, target);
  Start();
  // Half a frame has arrived when the receive is withdrawn.
  const std::vector<std::byte> frame = FrameBytes(Header(wire::FrameType::kData, 1, 1000), 3);
  SendFromFar({frame.begin(), frame.begin() + 580});
  GiveWithdraw();
  EXPECT_EQ(Next(RailEvent::Kind::kWithdrawn).key.number, 5u);
  std::fill(target.begin(), target.end(), std::byte{0xee});
  SendFromFar({frame.begin() + 580, frame.end()});
  SendFromFar(FrameBytes(Header(wire::FrameType::kData, 2, 1000), 4));
  EXPECT_FALSE(Next(RailEvent::Kind::kFrame).placed);
  EXPECT_FALSE(Next(RailEvent::Kind::kFrame).placed);
  EXPECT_THAT(target, testing::Each(std::byte{0xee}));
}

// Why: an earlier rail has forgotten the receive; this one cannot know it.
TEST_F(TcpRailTest, DropsUnknownDataWhenResumed) {
  Start(/*resumed=*/true);
  SendFromFar(FrameBytes(Header(wire::FrameType::kData, 1, 500), 1));
  EXPECT_FALSE(Next(RailEvent::Kind::kFrame).placed);
}

TEST_F(TcpRailTest, GoesDownOnAFrameThatBreaksABound) {
  Start();
  SendFromFar(FrameBytes(Header(wire::FrameType::kGrant, 0)));
  EXPECT_EQ(Next(RailEvent::Kind::kDown).cause, DownCause::kViolation);
}

// Why: a side that no longer reads must not write within a frame; and what it had begun has its
// number.
// How: the far side reads nothing until the rail has found the flipped bit within its own frame.
TEST_F(TcpRailTest, ReportsItsEndAfterTheFrameThatHasBegun) {
  Start();
  const std::vector<std::byte> payload(wire::kChunkBytesMax, std::byte{3});
  RailCommand command;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    command.frame = {Header(wire::FrameType::kData, i, wire::kChunkBytesMax), payload.data()};
    ASSERT_TRUE(GiveInTime(command));
  }
  wire::FrameHeader begun;
  ASSERT_EQ(::recv(far_.get(), &begun, sizeof begun, MSG_WAITALL | MSG_PEEK),
            ssize_t{sizeof begun});
  std::vector<std::byte> bytes = FrameBytes(Header(wire::FrameType::kGrant, 1));
  bytes[20] ^= std::byte{1};
  SendFromFar(bytes);
  wire::FrameHeader read = ReadAtFar();
  for (; read.type == wire::FrameType::kData; read = ReadAtFar()) {
    EXPECT_EQ(read.sequence, 1u) << "only the frame that had begun is completed";
  }
  EXPECT_EQ(read.type, wire::FrameType::kGivenUp);
  EXPECT_EQ(Next(RailEvent::Kind::kDown).link_reason, LinkReason::kBytesChanged);
}

// Why: otherwise a side would only find the silence, after two seconds.
TEST_F(TcpRailTest, GoesDownAsCutWhenThePeerHasDroppedIt) {
  Start();
  wire::FrameHeader given_up = Header(wire::FrameType::kGivenUp, 0);
  given_up.tag = static_cast<std::uint32_t>(LinkReason::kBytesChanged);
  SendFromFar(FrameBytes(given_up));
  const RailEvent down = Next(RailEvent::Kind::kDown);
  EXPECT_EQ(down.cause, DownCause::kCut);
  EXPECT_EQ(down.link_reason, LinkReason::kBytesChanged);
  EXPECT_THAT(down.reason, testing::HasSubstr("different bytes from those sent"));
}

// Why: the peer treats a closed connection as the end of this daemon, which only drops a rail.
TEST_F(TcpRailTest, KeepsItsSocketOpenWhenStopped) {
  Start();
  rail_->Stop();
  EXPECT_EQ(Next(RailEvent::Kind::kDown).cause, DownCause::kCut);
  std::shared_ptr<void> end = rail_->KeepEnd();
  ASSERT_NE(end, nullptr);
  rail_.reset();
  std::byte any;
  EXPECT_EQ(::recv(far_.get(), &any, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  end.reset();
  EXPECT_EQ(::recv(far_.get(), &any, 1, MSG_DONTWAIT), 0);
}

TEST_F(TcpRailTest, ClosesItsSocketIfThePeerHasEndedOrBrokenTheProtocol) {
  Start();
  SendFromFar(FrameBytes(Header(wire::FrameType::kGrant, 0)));
  Next(RailEvent::Kind::kDown);
  rail_->Stop();
  EXPECT_EQ(rail_->KeepEnd(), nullptr);
  std::byte any;
  EXPECT_LE(::recv(far_.get(), &any, 1, 0), 0);
}

// Why: no route, no interface, no memory: all of these happen to living daemons.
TEST_F(TcpRailTest, DoesNotMistakeAFailureOfThisMachineForThePeersEnd) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
  auto created = TcpRail::Create(std::move(socket), "here", "there", {}, bell_);
  ASSERT_TRUE(created.ok());
  rail_ = *std::move(created);
  Start();  // ENOTCONN.
  EXPECT_EQ(Next(RailEvent::Kind::kDown).cause, DownCause::kCut);
}

// Why: a neighbour that ends sends the reason and is gone; a write that fails at that moment must
// not lose its message.
TEST_F(TcpRailTest, ReadsTheLastMessagesAfterWritingHasFailed) {
  for (std::uint64_t i = 1; i <= 100; ++i) {
    SendFromFar(FrameBytes(Header(wire::FrameType::kGrant, i)));
  }
  far_.Reset();
  RailCommand command;
  command.frame.header = Header(wire::FrameType::kGrant, 1);
  ASSERT_TRUE(rail_->Give(command));
  Start();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ASSERT_EQ(Next(RailEvent::Kind::kFrame).header.sequence, i);
  }
  EXPECT_EQ(Next(RailEvent::Kind::kDown).cause, DownCause::kReset);
}

// Why: large control messages are allocated; a neighbour that sends nothing else must not fill the
// memory of a slow daemon.
// How: the rail never reads further ahead than the limit.
TEST_F(TcpRailTest, HoldsFewLargeControlMessagesAtOnce) {
  Start();
  constexpr std::uint64_t kMessages = 100;
  constexpr std::uint64_t kFrameBytes = wire::kControlBytesMax + sizeof(wire::FrameHeader);
  std::thread far([this] {
    for (std::uint64_t i = 1; i <= kMessages; ++i) {
      SendFromFar(FrameBytes(Header(wire::FrameType::kControl, i, wire::kControlBytesMax)));
    }
  });
  std::uint64_t most_ahead = 0;
  for (std::uint64_t i = 1; i <= kMessages; ++i) {
    for (int look = 0; look < 1000; ++look) {
      const std::uint64_t taken = (i - 1) * kFrameBytes;
      most_ahead = std::max(most_ahead, rail_->figures().received_bytes - taken);
      std::this_thread::yield();
    }
    EXPECT_EQ(Next(RailEvent::Kind::kFrame).header.sequence, i);
  }
  far.join();
  EXPECT_LE(most_ahead, 18 * kFrameBytes);
}

// Why: data that was read ahead is no longer in the socket. If the rail fell asleep just when room
// appeared, nothing would wake it for the rest.
// How: more small messages than there are slots, taken about when the rail stops reading.
TEST_F(TcpRailTest, DeliversWhatItHasReadAheadWheneverRoomAppears) {
  Start();
  constexpr std::uint64_t kMessages = 140;
  std::uint64_t sequence = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::byte> bytes;
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const std::vector<std::byte> frame =
          FrameBytes(Header(wire::FrameType::kEager, ++sequence, 1));
      bytes.insert(bytes.end(), frame.begin(), frame.end());
    }
    const std::uint64_t all = rail_->figures().received_bytes + bytes.size();
    SendFromFar(bytes);
    while (rail_->figures().received_bytes < all) std::this_thread::yield();
    const std::uint64_t until =
        platform::MonotonicNow() + 100 * static_cast<std::uint64_t>(round % 1000);
    while (platform::MonotonicNow() < until) continue;
    for (std::uint64_t i = kMessages; i > 0; --i) {
      ASSERT_EQ(Next(RailEvent::Kind::kFrame).header.sequence, sequence - i + 1);
    }
  }
}

// Why: the peer's window waits for acknowledgements; behind megabytes of data on a slow cable they
// would delay the peer.
// How: two data frames that do not fit into the socket, then an acknowledgement. It goes before the
// second, but not within the first.
TEST_F(TcpRailTest, PutsAcknowledgementsBeforeWaitingData) {
  const std::vector<std::byte> payload(wire::kChunkBytesMax, std::byte{7});
  RailCommand command;
  command.kind = RailCommand::Kind::kTransmit;
  command.frame.payload = payload.data();
  for (const std::uint64_t sequence : {1u, 2u}) {
    command.frame.header = Header(wire::FrameType::kData, sequence, wire::kChunkBytesMax);
    ASSERT_TRUE(rail_->Give(command));
  }
  command.frame = {Header(wire::FrameType::kAck, 0), nullptr};
  ASSERT_TRUE(rail_->Give(command));
  Start();
  std::vector<wire::FrameType> types;
  std::vector<std::byte> read;
  for (int i = 0; i < 3; ++i) {
    types.push_back(ReadAtFar(&read).type);
    EXPECT_TRUE(read.empty() || read == payload);
  }
  rail_->Stop();  // The payload belongs to this test.
  EXPECT_EQ(types.back(), wire::FrameType::kData);
  EXPECT_EQ(std::count(types.begin(), types.end(), wire::FrameType::kAck), 1);
}

// Why: a peer that sends and does not read causes endless acknowledgements. A rail full of them
// took no commands any more, so the whole link waited, and the loop spun.
// How: ten times as many acknowledgements as there are places, while the socket is full. All are
// accepted, and the newest of each block is sent.
TEST_F(TcpRailTest, TakesEveryCommandHoweverManyAcknowledgementsWait) {
  // Static: the rail's thread may still be sending what has been read here.
  static const std::vector<std::byte> payload(wire::kChunkBytesMax, std::byte{7});
  RailCommand command;
  command.frame = {Header(wire::FrameType::kData, 1, wire::kChunkBytesMax), payload.data()};
  ASSERT_TRUE(rail_->Give(command));
  Start();
  LookUntil([&] { return rail_->figures().sent_bytes != 0; });
  constexpr std::uint64_t kAcknowledgements = 10'000;
  for (std::uint64_t i = 1; i <= kAcknowledgements; ++i) {
    command.frame = {Header(wire::FrameType::kAck, 0), nullptr};
    command.frame.header.acknowledged = i;
    command.frame.header.tag = i % wire::Arrived::kBlocks;
    ASSERT_TRUE(GiveInTime(command)) << "acknowledgement " << i;
  }
  command.frame = {Header(wire::FrameType::kGrant, 2), nullptr};
  ASSERT_TRUE(GiveInTime(command));
  ReadHeader();
  std::vector<std::byte> read(payload.size());
  ASSERT_EQ(::recv(far_.get(), read.data(), read.size(), MSG_WAITALL),
            static_cast<ssize_t>(read.size()));
  std::map<std::uint32_t, std::uint64_t> newest;
  int count = 0;
  for (wire::FrameHeader header = ReadHeader(); header.type == wire::FrameType::kAck && count < 100;
       header = ReadHeader()) {
    newest[header.tag] = header.acknowledged;
    ++count;
  }
  // The last ones may have been given while the first were being written.
  EXPECT_LE(count, 2 * static_cast<int>(wire::Arrived::kBlocks));
  EXPECT_EQ(newest, (std::map<std::uint32_t, std::uint64_t>{
                        {0, 10'000}, {1, 9'997}, {2, 9'998}, {3, 9'999}}));
}

#if defined(__linux__)
// The threads of this process, and whether one of them sleeps.
std::set<std::string> Threads() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(entry.path());
  }
  return threads;
}
bool Sleeps(const std::string& thread) {
  std::ifstream file(thread + "/stat");
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = stat.rfind(')');
  return name_end + 2 < stat.size() && stat[name_end + 2] == 'S';
}

// Why: a thread that spins on a full socket takes a core from the others, as long as the peer does
// not read.
// How: numbered frames until the rail takes no more; then its thread must sleep. When the peer
// reads, it wakes up and sends all of them.
TEST_F(TcpRailTest, SleepsWhileCommandsWaitForTheSocket) {
  const std::set<std::string> before = Threads();
  Start();
  std::string thread;
  for (const std::string& one : Threads()) {
    if (!before.contains(one)) thread = one;
  }
  RailCommand command;
  std::uint64_t given = 0;
  const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
  bool full_and_asleep = false;
  while (!full_and_asleep && platform::MonotonicNow() < deadline) {
    command.frame.header = Header(wire::FrameType::kGrant, given + 1);
    if (rail_->Give(command)) {
      ++given;
    } else {
      // It has taken its commands. Before that it may only be starting.
      full_and_asleep = given > 2000 && Sleeps(thread);
    }
  }
  EXPECT_TRUE(full_and_asleep);
  for (std::uint64_t i = 1; i <= given; ++i) ASSERT_EQ(ReadHeader().sequence, i);
}
#endif

// Why: a process that writes into memory while it is sent would make every sum wrong.
// How: it does so while the socket is full of the first part of data that is sent again.
TEST_F(TcpRailTest, SendsRepeatedDataFromACopy) {
  std::vector<std::byte> payload(wire::kChunkBytesMax, std::byte{7});
  const std::vector<std::byte> other(wire::kChunkBytesMax, std::byte{8});
  RailCommand command;
  command.kind = RailCommand::Kind::kTransmit;
  for (const auto* const each : {&std::as_const(payload), &other}) {
    command.frame = {Header(wire::FrameType::kData, each == &other ? 2 : 1, wire::kChunkBytesMax),
                     each->data()};
    command.frame.header.flags = wire::kRepeated;
    ASSERT_TRUE(rail_->Give(command));
  }
  Start();
  wire::FrameHeader begun;
  ASSERT_EQ(::recv(far_.get(), &begun, sizeof begun, MSG_WAITALL | MSG_PEEK),
            ssize_t{sizeof begun});
  const std::vector<std::byte> as_given = payload;
  payload.assign(payload.size(), std::byte{9});
  std::vector<std::byte> read;
  EXPECT_EQ(ReadAtFar(&read).sequence, 1u);
  EXPECT_TRUE(read == as_given);
  EXPECT_EQ(ReadAtFar(&read).sequence, 2u);
  EXPECT_TRUE(read == other) << "there is one copy at a time";
}

// Why: a connection that passes only small packets is useless (the link tests each with a large
// heartbeat).
TEST_F(TcpRailTest, EchoesALargeHeartbeatAsLargeAndKnowsThatItsOwnHasPassed) {
  Start();
  RailCommand command;
  command.kind = RailCommand::Kind::kHeartbeat;
  command.padded = true;
  ASSERT_TRUE(rail_->Give(command));
  const wire::FrameHeader asked = ReadAtFar();
  EXPECT_EQ(asked.type, wire::FrameType::kHeartbeat);
  EXPECT_EQ(asked.payload_bytes, wire::kPaddedBytes);
  EXPECT_FALSE(rail_->has_passed_large());
  SendFromFar(FrameBytes(Header(wire::FrameType::kHeartbeat, 0, wire::kPaddedBytes, 4711)));
  const wire::FrameHeader echo = ReadAtFar();
  EXPECT_EQ(echo.type, wire::FrameType::kEcho);
  EXPECT_EQ(echo.payload_bytes, wire::kPaddedBytes);
  EXPECT_EQ(echo.offset, 4711u);
  SendFromFar(FrameBytes(Header(wire::FrameType::kHeartbeat, 0, 0, 4712)));
  EXPECT_EQ(ReadAtFar().payload_bytes, 0u) << "only the requester gets it";
  EXPECT_FALSE(rail_->has_passed_large());
  SendFromFar(FrameBytes(Header(wire::FrameType::kEcho, 0, wire::kPaddedBytes, 1)));
  while (!rail_->has_passed_large()) std::this_thread::yield();
}

// Why: when the daemon ends, its last messages (the reason, acknowledgements) must reach its
// neighbours.
TEST_F(TcpRailTest, FinishSendsWhatWasGivenBefore) {
  Start();
  std::vector<std::byte> payload(wire::kChunkBytesMax, std::byte{8});
  for (std::uint64_t i = 1; i <= 4; ++i) {
    RailCommand command;
    command.frame = {Header(wire::FrameType::kData, i, wire::kChunkBytesMax), payload.data()};
    ASSERT_TRUE(rail_->Give(command));
  }
  rail_->Finish();
  std::vector<std::byte> got(4 * (sizeof(wire::FrameHeader) + payload.size()));
  ASSERT_EQ(::recv(far_.get(), got.data(), got.size(), MSG_WAITALL),
            static_cast<ssize_t>(got.size()));
  std::byte more;
  EXPECT_EQ(::recv(far_.get(), &more, 1, 0), 0);
  far_.Reset();
  rail_->Stop();
  Next(RailEvent::Kind::kDown);
  EXPECT_EQ(transmitted_, 4u);
}

// Why: while a daemon ends, events are not taken; that must not hold back its messages.
TEST_F(TcpRailTest, FinishSendsThoughEventsAreNoLongerTaken) {
  Start();
  // The ring has 1024 places, three of which are reserved.
  for (std::size_t i = 1; i <= 1100; ++i) {
    SendFromFar(FrameBytes(Header(wire::FrameType::kGrant, i)));
  }
  LookUntil([&] { return rail_->figures().received_bytes >= 1021 * sizeof(wire::FrameHeader); });
  for (std::uint64_t i = 1; i <= 3; ++i) {
    GiveWithdraw();
    RailCommand command;
    command.frame.header = Header(wire::FrameType::kGrant, i);
    ASSERT_TRUE(rail_->Give(command));
  }
  rail_->Finish();
  std::vector<wire::FrameHeader> got(4);
  EXPECT_EQ(::recv(far_.get(), got.data(), 4 * sizeof got[0], MSG_WAITALL),
            static_cast<ssize_t>(3 * sizeof got[0]));
  EXPECT_EQ(got[2].sequence, 3u);
}

}  // namespace
}  // namespace mlxcomm::rail::tcp_rail_test
