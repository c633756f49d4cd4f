// How much a reader reads at a time, and where to: this saves a copy for large payloads and a
// system call for small ones. The tests of rails cover what happens to the bytes.
#include "daemon/rail/frame_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "daemon/rail/frame_sum.h"

namespace mlxcomm::rail::frame_reader_test {
namespace {

constexpr std::uint32_t kLarge = 256 * 1024;
constexpr std::uint64_t kAmongDataMax = 4 * 1024;

// Bytes that have arrived, at most `most` per read; counts those that do not go to `place`.
class WaitingBytes final : public ByteStream {
 public:
  void Append(wire::FrameHeader header, std::byte fill) {
    const std::vector<std::byte> payload(header.payload_bytes, fill);
    PutSums(header, payload.data());
    const auto* const bytes = reinterpret_cast<const std::byte*>(&header);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof header);
    bytes_.insert(bytes_.end(), payload.begin(), payload.end());
  }
  void FlipBit(std::size_t at, unsigned bit) { bytes_[at] ^= static_cast<std::byte>(1u << bit); }
  void Swallow(std::size_t count) { bytes_.resize(bytes_.size() - count); }
  std::size_t untaken() const { return bytes_.size() - taken_; }
  ssize_t Read(int /*socket*/, iovec* parts, int count) override {
    ++asked;
    const std::size_t end = bytes_.size() - on_the_way;
    if (taken_ == end) {
      errno = EAGAIN;
      return -1;
    }
    ++reads;
    ssize_t got = 0;
    for (int i = 0; i < count; ++i) {
      const std::size_t bytes =
          std::min({parts[i].iov_len, end - taken_, most - static_cast<std::size_t>(got)});
      std::memcpy(parts[i].iov_base, bytes_.data() + taken_, bytes);
      taken_ += bytes;
      got += static_cast<ssize_t>(bytes);
      const auto* const at = static_cast<const std::byte*>(parts[i].iov_base);
      const bool is_elsewhere = place == nullptr || at < place || at >= place + kLarge;
      if (is_elsewhere) elsewhere_most = std::max(elsewhere_most, bytes);
    }
    return got;
  }
  ssize_t Write(int /*socket*/, iovec* /*parts*/, int /*count*/) override { return -1; }
  bool DrainsOnShortRead() const override { return reads_all_there_is; }
  bool TakeGap() override { return std::exchange(has_gap, false); }
  bool is_encrypted() const override { return false; }

  bool has_gap = false;
  bool reads_all_there_is = false;
  int asked = 0;
  const std::byte* place = nullptr;
  std::size_t most = kLarge;
  std::size_t on_the_way = 0;  // The last of the appended bytes, which have not arrived.
  int reads = 0;
  std::size_t elsewhere_most = 0;  // In one read.

 private:
  std::vector<std::byte> bytes_;
  std::size_t taken_ = 0;
};

class FrameReaderTest : public testing::Test, protected FrameReaderPort {
 protected:
  void SetUp() override {
    reader_.posted().ShareClaims(claims_);
    stream_.place = place_.data();
  }
  static wire::FrameHeader Header(wire::FrameType type, std::uint64_t sequence,
                                  std::uint32_t payload_bytes) {
    wire::FrameHeader header;
    header.type = type;
    header.sequence = sequence;
    header.payload_bytes = payload_bytes;
    header.number = wire::IsSignOfLife(type) ? 0 : 5;
    return header;
  }
  void AppendSignOfLife(wire::FrameType type, std::uint64_t frames_before) {
    wire::FrameHeader header = Header(type, 0, 0);
    header.number = frames_before;
    stream_.Append(header, std::byte{});
  }
  void ExpectLarge() {
    PostedReceive receive;
    receive.bytes = kLarge;
    receive.destination = place_.data();
    receive.key = KeyOf(Header(wire::FrameType::kData, 1, kLarge));
    reader_.posted().Expect(receive, budget_.Open(kLarge));
  }
  void ReadAll() {
    while (reader_.Read(/*write_error=*/0)) {
    }
    ASSERT_FALSE(reader_.has_ended()) << reader_.end_reason();
  }

  // The rest of it is under way.
  void ReadHalfOfWhatComesOnceMore() {
    ExpectLarge();
    wire::FrameHeader repeated = Header(wire::FrameType::kData, 1, kLarge);
    repeated.flags = wire::kRepeated;
    stream_.Append(repeated, std::byte{7});
    stream_.on_the_way = kLarge / 2;
    ReadAll();
  }

  bool HasRoomForEvent() const override { return true; }
  void TakeCommands() override {}
  bool CommandsWait() const override { return false; }
  void OnEvent(RailEvent&& event) override {
    if (event.kind == RailEvent::Kind::kTransmitted) {
      abandoned_.emplace_back(event.abandoned, event.link_reason);
    } else {
      events_.push_back(std::move(event));
    }
  }
  void OnHeartbeat(const wire::FrameHeader& /*heartbeat*/) override {}

  FileDescriptor socket_;
  WaitingBytes stream_;
  ArrivalClaims claims_;
  ReceiveBudget budget_;
  std::vector<std::byte> place_ = std::vector<std::byte>(kLarge);
  std::vector<RailEvent> events_;
  std::vector<std::pair<std::uint64_t, LinkReason>> abandoned_;
  FrameReader reader_{socket_, stream_, *this};
};

// Why: a grant before the payload made the reader read ahead as for small frames, and copy a
// quarter of the payload.
TEST_F(FrameReaderTest, ReadsALargePayloadToItsPlaceWhateverPrecededIt) {
  ExpectLarge();
  stream_.Append(Header(wire::FrameType::kGrant, 1, 0), std::byte{});
  stream_.Append(Header(wire::FrameType::kData, 2, kLarge), std::byte{7});
  ReadAll();
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_TRUE(events_[1].placed);
  EXPECT_EQ(place_, std::vector<std::byte>(kLarge, std::byte{7}));
  EXPECT_LE(stream_.elsewhere_most, kAmongDataMax);
}

// Why: an empty read costs a system call for each small operation. TLS may have taken more from the
// socket than it has returned.
TEST_F(FrameReaderTest, ReadsOnAfterAShortReadOnlyIfBytesMayBeLeft) {
  for (const bool reads_all : {true, false}) {
    stream_.reads_all_there_is = reads_all;
    stream_.asked = 0;
    stream_.Append(Header(wire::FrameType::kEager, reads_all ? 1 : 2, 8), std::byte{7});
    EXPECT_TRUE(reader_.Read(/*write_error=*/0, /*turns=*/3));
    EXPECT_EQ(events_.size(), reads_all ? 1u : 2u);
    EXPECT_EQ(stream_.asked, reads_all ? 1 : 2);
  }
}

// Why: what a full read leaves is taken in the same turn.
TEST_F(FrameReaderTest, ReadsOnAfterAFullRead) {
  stream_.reads_all_there_is = true;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    stream_.Append(Header(wire::FrameType::kEager, i, wire::kEagerBytesMax), std::byte{7});
  }
  EXPECT_TRUE(reader_.Read(/*write_error=*/0, /*turns=*/8));
  EXPECT_EQ(events_.size(), 8u);
}

// Why: a large receive may be posted as long as its peer is busy, while other ranks' small frames
// pass.
TEST_F(FrameReaderTest, ReadsSmallFramesTogetherWhileALargeReceiveIsPosted) {
  ExpectLarge();
  for (std::uint64_t i = 1; i <= 4; ++i) {
    stream_.Append(Header(wire::FrameType::kEager, i, wire::kEagerBytesMax), std::byte{7});
  }
  ReadAll();
  ASSERT_EQ(events_.size(), 4u);
  for (const RailEvent& event : events_) {
    EXPECT_TRUE(std::all_of(event.payload.begin(), event.payload.end(),
                            [](std::byte byte) { return byte == std::byte{7}; }));
  }
  EXPECT_EQ(stream_.reads, 2) << "what came first may have been large";
}

// Why: each payload was copied from the read-ahead buffer to a slot, and from there to its place.
TEST_F(FrameReaderTest, LeavesEagerPayloadsWhereTheyWereReadAhead) {
  for (std::uint64_t i = 1; i <= 4; ++i) {
    stream_.Append(Header(wire::FrameType::kEager, i, wire::kEagerBytesMax), std::byte{7});
  }
  ReadAll();
  ASSERT_EQ(events_.size(), 4u);
  EXPECT_EQ(stream_.reads, 1);
  for (std::size_t i = 1; i < events_.size(); ++i) {
    EXPECT_EQ(events_[i].payload.data(),
              events_[i - 1].payload.data() + wire::kEagerBytesMax + sizeof(wire::FrameHeader));
  }
}

// Why: the network may change any bit, and a corrupt length would make the reader wait forever.
// How: each bit of a header and some of the payload's bytes, in payloads that are read directly to
// their place, staged and combined, or read ahead, in reads of several sizes. Such a frame causes
// no event, and the frame before it does. Data is requested again, because processes may write to
// its memory; anything else ends the rail.
TEST_F(FrameReaderTest, IgnoresAFrameWithAFlippedBit) {
  constexpr std::size_t kHeader = sizeof(wire::FrameHeader);
  std::vector<std::size_t> bits;
  for (std::size_t bit = 0; bit < 8 * kHeader; ++bit) bits.push_back(bit);
  for (const std::size_t byte : {0u, 1u, 4095u, 5000u, 5999u})
    bits.push_back(8 * (kHeader + byte) + 3);
  for (const bool combined : {false, true}) {
    for (const wire::FrameType type : {wire::FrameType::kData, wire::FrameType::kEager}) {
      for (const std::size_t bit : bits) {
        WaitingBytes stream;
        stream.most = 1 + bit % 3 * 2900;
        ArrivalClaims claims;
        ReceiveBudget budget;
        events_.clear();
        abandoned_.clear();
        FrameReader reader(socket_, stream, *this);
        reader.posted().ShareClaims(claims);
        PostedReceive receive;
        receive.bytes = kLarge;
        receive.destination = place_.data();
        receive.key = KeyOf(Header(type, 2, 6000));
        if (combined)
          receive.place = [](const PostedReceive&, std::uint64_t, const std::byte*, std::uint32_t) {
          };
        reader.posted().Expect(receive, budget.Open(kLarge));
        stream.Append(Header(wire::FrameType::kGrant, 1, 0), std::byte{});
        stream.Append(Header(type, 2, 6000), std::byte{7});
        stream.FlipBit(kHeader + bit / 8, bit % 8);
        while (reader.Read(/*write_error=*/0)) {
        }
        const bool is_asked_for = type == wire::FrameType::kData && bit >= 8 * kHeader;
        ASSERT_EQ(reader.has_ended(), !is_asked_for) << "bit " << bit;
        EXPECT_EQ(reader.should_report_end(), !is_asked_for);
        if (is_asked_for) {
          EXPECT_EQ(abandoned_,
                    (std::vector{std::pair{std::uint64_t{2}, LinkReason::kBytesChanged}}));
        } else {
          EXPECT_EQ(reader.end_cause(), DownCause::kCut) << "bit " << bit;
          EXPECT_EQ(reader.end_link_reason(), LinkReason::kBytesChanged) << "bit " << bit;
        }
        ASSERT_EQ(events_.size(), 1u) << "bit " << bit;
        EXPECT_EQ(events_[0].header.sequence, 1u);
        (void)reader.posted().Abandon();
        EXPECT_EQ(claims.Take(2), ArrivalClaims::Claim::kOurs) << "bit " << bit;
      }
    }
  }
}

// Why: the network may swallow frames and pass on heartbeats; then no side falls silent, and a wait
// for a frame never ends.
// How: each of four frames is missing, heartbeats included.
TEST_F(FrameReaderTest, FindsMissingFramesByHeartbeats) {
  for (std::uint64_t missing = 1; missing <= 5; ++missing) {
    WaitingBytes stream;
    FrameReader reader(socket_, stream, *this);
    reader.posted().ShareClaims(claims_);
    for (std::uint64_t i = 1; i <= 5; ++i) {
      wire::FrameHeader header = Header(wire::FrameType::kEager, i, 100);
      if (i >= 4) header = Header(wire::FrameType::kHeartbeat, 0, 0);
      if (i >= 4) header.number = i - 1;
      if (i != missing) stream.Append(header, std::byte{7});
    }
    while (reader.Read(/*write_error=*/0)) {
    }
    EXPECT_EQ(reader.has_ended(), missing < 5) << missing;
    EXPECT_EQ(reader.should_report_end(), missing < 5);
    if (missing == 5) continue;
    EXPECT_EQ(reader.end_cause(), DownCause::kCut);
    EXPECT_EQ(reader.end_link_reason(), LinkReason::kBytesChanged);
    EXPECT_EQ(reader.end_reason(), missing == 4
                                       ? "of 4 frames that the peer has sent, 3 have arrived"
                                       : "of 3 frames that the peer has sent, 2 have arrived");
  }
}

// Why: an RDMA device may lose messages, which its stream reports; older releases did not count
// frames.
TEST_F(FrameReaderTest, CountsFramesFromTheNextHeartbeatAfterAGap) {
  stream_.Append(Header(wire::FrameType::kEager, 1, 100), std::byte{7});
  AppendSignOfLife(wire::FrameType::kEcho, 0);
  AppendSignOfLife(wire::FrameType::kHeartbeat, 2);
  ReadAll();
  stream_.has_gap = true;
  AppendSignOfLife(wire::FrameType::kHeartbeat, 9);
  stream_.Append(Header(wire::FrameType::kEager, 2, 100), std::byte{7});
  AppendSignOfLife(wire::FrameType::kEcho, 11);
  ReadAll();
  AppendSignOfLife(wire::FrameType::kEcho, 13);
  while (reader_.Read(/*write_error=*/0)) {
  }
  EXPECT_EQ(reader_.end_reason(), "of 13 frames that the peer has sent, 12 have arrived");
}

// Why: if the rest of a frame was swallowed, heartbeats were read as its payload, for minutes.
// How: they arrive together with others, and within a frame that is placed, staged or kept.
TEST_F(FrameReaderTest, EndsAtAHeartbeatWithinAPayloadIfThePeersMarkIsKnown) {
  constexpr std::uint64_t kMark = 0x123456789abcdef1;
  for (const std::uint64_t mark : {kMark, std::uint64_t{0}}) {
    for (const wire::FrameType type : {wire::FrameType::kData, wire::FrameType::kEager}) {
      WaitingBytes stream;
      FrameReader reader(socket_, stream, *this);
      ArrivalClaims claims;
      reader.posted().ShareClaims(claims);
      PostedReceive receive;
      receive.bytes = kLarge;
      receive.destination = place_.data();
      receive.key = KeyOf(Header(wire::FrameType::kData, 1, kLarge));
      ReceiveBudget budget;
      reader.posted().Expect(receive, budget.Open(kLarge));
      wire::FrameHeader beat = Header(wire::FrameType::kHeartbeat, 0, 0);
      beat.digest = mark;
      stream.Append(beat, std::byte{});
      const std::uint32_t bytes = type == wire::FrameType::kData ? 100'000 : wire::kEagerBytesMax;
      stream.Append(Header(type, 1, bytes), std::byte{7});
      stream.Swallow(bytes / 2);
      while (reader.Read(/*write_error=*/0)) {
      }
      stream.Append(Header(wire::FrameType::kControl, 2, 500), std::byte{7});
      stream.Append(beat, std::byte{});
      while (reader.Read(/*write_error=*/0)) {
      }
      EXPECT_EQ(reader.end_reason(), mark == 0 ? "" : "the rest of a frame did not arrive");
      EXPECT_EQ(reader.should_report_end(), mark != 0);
      (void)reader.posted().Abandon();
    }
  }
}

// Why: a frame that is requested again, and what follows it, arrive as any other. Bytes of an
// operation that was withdrawn in the meantime do not matter.
TEST_F(FrameReaderTest, ReceivesCorruptDataAgain) {
  ExpectLarge();
  stream_.Append(Header(wire::FrameType::kData, 1, kLarge), std::byte{7});
  stream_.FlipBit(sizeof(wire::FrameHeader) + kLarge / 2, 0);
  stream_.Append(Header(wire::FrameType::kGrant, 2, 0), std::byte{});
  stream_.Append(Header(wire::FrameType::kData, 1, kLarge), std::byte{7});
  ReadAll();
  EXPECT_EQ(abandoned_.size(), 1u);
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_EQ(events_[0].header.sequence, 2u);
  EXPECT_TRUE(events_[1].placed);
  EXPECT_EQ(place_, std::vector<std::byte>(kLarge, std::byte{7}));
}

// Why: a process that writes into the memory that it receives in would make every sum wrong, and
// everything after that frame on the link would wait.
// How: it does so during repeated data, which is read to another place.
TEST_F(FrameReaderTest, PlacesRepeatedDataOnceItsSumIsRight) {
  ReadHalfOfWhatComesOnceMore();
  ASSERT_TRUE(events_.empty());
  EXPECT_TRUE(place_ == std::vector<std::byte>(kLarge));
  std::fill(place_.begin(), place_.end(), std::byte{9});
  stream_.on_the_way = 0;
  ReadAll();
  EXPECT_TRUE(abandoned_.empty());
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_TRUE(events_[0].placed);
  EXPECT_TRUE(place_ == std::vector<std::byte>(kLarge, std::byte{7}));
}

// Why: the process may have ended, and its memory with it.
TEST_F(FrameReaderTest, DropsRepeatedDataOfAWithdrawnOperation) {
  ReadHalfOfWhatComesOnceMore();
  reader_.Forget(KeyOf(Header(wire::FrameType::kData, 1, kLarge)));
  stream_.on_the_way = 0;
  ReadAll();
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_FALSE(events_[0].placed);
  EXPECT_TRUE(place_ == std::vector<std::byte>(kLarge));
}

TEST_F(FrameReaderTest, IgnoresCorruptionInADuplicate) {
  ExpectLarge();
  stream_.Append(Header(wire::FrameType::kData, 1, kLarge), std::byte{7});
  const std::size_t copy = stream_.untaken();
  stream_.Append(Header(wire::FrameType::kData, 1, kLarge), std::byte{7});
  stream_.FlipBit(copy + sizeof(wire::FrameHeader), 0);
  ReadAll();
  EXPECT_TRUE(abandoned_.empty());
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_TRUE(events_[1].duplicate);
}

// Why: a buffer that is reused too soon would change a payload that is still in use.
// How: frames of any length, each filled with its own number, in reads of any length. They are
// given back in order, at any time, and must be unchanged then.
TEST_F(FrameReaderTest, KeepsEachPayloadUntilItIsGivenBack) {
  std::mt19937 random(5);
  std::uint64_t sequence = 0;
  std::size_t given_back = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    if (sequence - given_back < 100) {
      const auto bytes = static_cast<std::uint32_t>(
          random() % 3 == 0 ? random() % 64 : random() % (wire::kEagerBytesMax + 1));
      ++sequence;
      stream_.Append(Header(wire::FrameType::kEager, sequence, bytes),
                     static_cast<std::byte>(sequence % 251));
    }
    stream_.most = 1 + random() % (128 * 1024);
    if (random() % 2 == 0) reader_.Read(/*write_error=*/0);
    ASSERT_FALSE(reader_.has_ended()) << reader_.end_reason();
    while (given_back < events_.size() && random() % 3 != 0) {
      const RailEvent& event = events_[given_back++];
      const auto fill = static_cast<std::byte>(event.header.sequence % 251);
      ASSERT_EQ(event.payload.size(), event.header.payload_bytes);
      ASSERT_TRUE(std::all_of(event.payload.begin(), event.payload.end(), [fill](std::byte byte) {
        return byte == fill;
      })) << event.header.sequence;
      if (!event.payload.empty()) reader_.OnSlotFreed();
    }
  }
  EXPECT_GT(given_back, 1000u);
}

// Why: one more would overwrite a payload that is still read.
// How: no payload arrives with its header, so each takes a slot.
TEST_F(FrameReaderTest, WaitsForASlotIfAllAreInUse) {
  constexpr std::size_t kSlots = 128;
  stream_.most = 1;
  for (std::uint64_t i = 1; i <= kSlots + 10; ++i) {
    stream_.Append(Header(wire::FrameType::kEager, i, 64), std::byte{7});
  }
  ReadAll();
  EXPECT_EQ(events_.size(), kSlots);
  reader_.OnSlotFreed();
  ReadAll();
  EXPECT_EQ(events_.size(), kSlots + 1);
}

}  // namespace
}  // namespace mlxcomm::rail::frame_reader_test
