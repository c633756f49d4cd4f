// A rail with TLS: what happens when an attacker on the path cuts, changes or adds something after
// the handshake. tcp_fabric_test.cc carries large data over one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/platform/machine.h"
#include "daemon/rail/tcp/tls_stream.h"
#include "proto/queue/doorbell.h"
#include "tests/unit/daemon/fabric/some_keys.h"
#include "tests/unit/daemon/rail/tcp/one_rail.h"
#include "tests/unit/never.h"

namespace mlxcomm::rail::tls_rail_test {
namespace {

using testing::Each;
using testing::HasSubstr;
using Progress = TlsStream::Progress;

// The rail is the dialer; the test has the acceptor's stream.
class TlsRailTest : public OneRailTest {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_TRUE(queue::MakeDoorbellPair(ends));
    FileDescriptor near(ends[0]);
    far_.Reset(ends[1]);
    const DerivedKey key = fabric::KeyOf(7).Derive("rail");
    auto dialer = *TlsStream::Create(Role::kDialer, key);
    acceptor_ = *TlsStream::Create(Role::kAcceptor, key);
    bool done = false;
    for (int round = 0; round < 10 && !done; ++round) {
      const auto one = dialer->Handshake(near.get());
      const auto other = acceptor_->Handshake(far_.get());
      ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
      done = *one == Progress::kDone && *other == Progress::kDone;
    }
    ASSERT_TRUE(done);
    MakeRailOf(std::move(near), nullptr, queue::Scheduling::kManyCores, std::move(dialer));
  }
  // The far end's bytes, encrypted.
  void Send(std::vector<std::byte> bytes) {
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    std::size_t written = 0;
    while ((written < bytes.size() || acceptor_->HasUnsent()) &&
           platform::MonotonicNow() < deadline) {
      iovec part = {bytes.data() + written, bytes.size() - written};
      const ssize_t put = written < bytes.size() ? acceptor_->Write(far_.get(), &part, 1)
                                                 : acceptor_->Flush(far_.get());
      if (put < 0 && errno != EAGAIN) return;  // The rail has ended.
      if (put > 0 && written < bytes.size()) written += static_cast<std::size_t>(put);
    }
  }
  // The rail's bytes, decrypted.
  std::vector<std::byte> Receive(std::size_t count) {
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    std::vector<std::byte> bytes(count);
    for (std::size_t have = 0; have < count && platform::MonotonicNow() < deadline;) {
      iovec part = {bytes.data() + have, count - have};
      const ssize_t got = acceptor_->Read(far_.get(), &part, 1);
      if (got > 0) have += static_cast<std::size_t>(got);
      if (got == 0 || (got < 0 && errno != EAGAIN)) {
        ADD_FAILURE() << "ends after " << have << " bytes";
        break;
      }
    }
    return bytes;
  }
  // The records of these bytes, as they go over the cable.
  std::string RecordsOf(std::vector<std::byte> bytes) {
    int ends[2];
    EXPECT_TRUE(queue::MakeDoorbellPair(ends));
    const FileDescriptor in(ends[0]), out(ends[1]);
    iovec part = {bytes.data(), bytes.size()};
    EXPECT_EQ(acceptor_->Write(in.get(), &part, 1), static_cast<ssize_t>(bytes.size()));
    EXPECT_FALSE(acceptor_->HasUnsent());
    std::string records(256 * 1024, '\0');
    const ssize_t got = ::recv(out.get(), records.data(), records.size(), 0);
    EXPECT_GT(got, 0);
    records.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return records;
  }
  void PutOnCable(const std::string& bytes) {
    std::vector<std::byte> all(bytes.size());
    std::memcpy(all.data(), bytes.data(), bytes.size());
    SendFromFar(all);
  }
  // A later rail continues with the first one's budget.
  void Ask(std::vector<std::byte>& target) {
    PostedReceive receive;
    receive.key.number = 5;
    receive.bytes = target.size();
    receive.destination = target.data();
    if (budgets_.empty()) share_ = budgets_.emplace_back().Open(receive.bytes);
    rail_->Expect(receive, share_);
  }

  std::unique_ptr<TlsStream> acceptor_;
  ReceiveBudget::Share share_;
};

// Why: data that was under way is resent on the next rail, and must find its place free.
TEST_F(TlsRailTest, ReadsWhatPrecededACutAndTheRestWhenItIsResent) {
  std::vector<std::byte> target(100'000);
  Ask(target);
  Start();
  Send(FrameBytes(Header(wire::FrameType::kEager, 1, 100), 1));
  const std::string records = RecordsOf(FrameBytes(Header(wire::FrameType::kData, 2, 100'000), 9));
  PutOnCable(records.substr(0, records.size() / 2));
  EXPECT_EQ(Next(RailEvent::Kind::kFrame).header.sequence, 1u);
  far_.Reset();
  const RailEvent down = Next(RailEvent::Kind::kDown);
  EXPECT_EQ(down.cause, DownCause::kReset);
  EXPECT_EQ(target.back(), std::byte{0});
  rail_->Stop();
  SetUp();
  Ask(target);
  Start(/*resumed=*/true);
  Send(FrameBytes(Header(wire::FrameType::kData, 2, 100'000), 9));
  EXPECT_TRUE(Next(RailEvent::Kind::kFrame).placed);
  EXPECT_THAT(target, Each(std::byte{9}));
}

// Why: an attacker that injects something must not make the peer believe that its neighbour has
// ended or has broken the protocol: both live, and another rail takes over.
TEST_F(TlsRailTest, AcceptsNothingThatThePeerDidNotSend) {
  const std::vector<std::byte> plain = FrameBytes(Header(wire::FrameType::kEager, 2, 100), 2);
  const std::string frame(reinterpret_cast<const char*>(plain.data()), plain.size());
  for (const std::string& garbage :
       {std::string(5000, 'G'), frame,
        std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'),
        std::string("\x15\x03\x03\x00\x02\x02\x28", 7),          // An unauthenticated alert.
        std::string("\x16\x03\x03\x00\x04\x00\x00\x00\x00", 9),  // A request to renegotiate.
        std::string("\x17\x03\x03\xff\xff", 5) + std::string(0xffff, 'x')}) {
    SetUp();
    Start();
    Send(FrameBytes(Header(wire::FrameType::kEager, 1, 100), 1));
    EXPECT_EQ(Next(RailEvent::Kind::kFrame).header.sequence, 1u);
    PutOnCable(garbage);
    const RailEvent down = Next(RailEvent::Kind::kDown);
    EXPECT_EQ(down.cause, DownCause::kCut);
    EXPECT_THAT(down.reason, HasSubstr("not authentic"));
    EXPECT_NE(rail_->KeepEnd(), nullptr);
    rail_->Stop();
  }
}

// Why: the peer, which may be the dialer, only found the silence, two seconds later.
TEST_F(TlsRailTest, ReportsACorruptRecordToThePeer) {
  Start();
  std::string records = RecordsOf(FrameBytes(Header(wire::FrameType::kEager, 1, 100), 9));
  records[records.size() / 2] = static_cast<char>(records[records.size() / 2] ^ 1);
  PutOnCable(records);
  EXPECT_EQ(Next(RailEvent::Kind::kDown).link_reason, LinkReason::kTlsFailed);
  std::byte byte;
  iovec part = {&byte, 1};
  const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
  ssize_t got = acceptor_->Read(far_.get(), &part, 1);
  while (got < 0 && errno == EAGAIN && platform::MonotonicNow() < deadline) {
    part = {&byte, 1};
    got = acceptor_->Read(far_.get(), &part, 1);
  }
  EXPECT_EQ(got, -1);
  EXPECT_EQ(errno, EBADMSG);
}

// Why: the peer's last message has the reason for its end.
TEST_F(TlsRailTest, SendsItsLastMessagesAndTheEnd) {
  Start();
  RailCommand command;
  command.frame.header = Header(wire::FrameType::kGrant, 1);
  ASSERT_TRUE(rail_->Give(command));
  rail_->Finish();
  const std::vector<std::byte> last = Receive(sizeof(wire::FrameHeader));
  wire::FrameHeader header;
  std::memcpy(&header, last.data(), sizeof header);
  EXPECT_EQ(header.type, wire::FrameType::kGrant);
  const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
  std::byte any;
  iovec part = {&any, 1};
  ssize_t got = -1;
  while ((got = acceptor_->Read(far_.get(), &part, 1)) < 0 && errno == EAGAIN &&
         platform::MonotonicNow() < deadline) {
  }
  EXPECT_EQ(got, 0);
  far_.Reset();
}

// Why: the peer requests a new proof within the proved connection.
TEST_F(TlsRailTest, ReceivesTheRequestForANewProof) {
  Start();
  EXPECT_FALSE(rail_->is_asked_for_new_proof());
  wire::FrameHeader heartbeat = Header(wire::FrameType::kHeartbeat, 0);
  heartbeat.flags = wire::kProveAgain;
  Send(FrameBytes(heartbeat));
  Receive(sizeof(wire::FrameHeader));  // Its echo.
  EXPECT_TRUE(rail_->is_asked_for_new_proof());
  rail_->AskForNewProof();
  RailCommand beat;
  beat.kind = RailCommand::Kind::kHeartbeat;
  ASSERT_TRUE(rail_->Give(beat));
  const std::vector<std::byte> written = Receive(sizeof heartbeat);
  std::memcpy(&heartbeat, written.data(), sizeof heartbeat);
  EXPECT_EQ(heartbeat.type, wire::FrameType::kHeartbeat);
  EXPECT_EQ(heartbeat.flags, wire::kProveAgain);
}

}  // namespace
}  // namespace mlxcomm::rail::tls_rail_test
