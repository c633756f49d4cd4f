// Two links over several real connections, each with its thread at both ends: what the
// threads share (claims, budgets, commands that wait) holds while connections are cut.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/fabric/link.h"
#include "daemon/fabric/tcp/tcp_rail.h"
#include "daemon/platform/machine.h"

namespace mlxcomm::fabric {
namespace {

using testing::IsEmpty;

constexpr std::uint32_t kChunk = 32 * 1024;

std::array<int, 2> ConnectedPair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener, any, sizeof address), 0);
  EXPECT_EQ(::listen(listener, 1), 0);
  EXPECT_EQ(::getsockname(listener, any, &length), 0);
  std::array<int, 2> ends = {::socket(AF_INET, SOCK_STREAM, 0), -1};
  EXPECT_EQ(::connect(ends[0], any, sizeof address), 0);
  ends[1] = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  for (const int end : ends) ::fcntl(end, F_SETFL, O_NONBLOCK);
  return ends;
}

// Sums each byte of a step once, or shows by how much it did not.
void AddBytes(const PostedReceive& receive, std::uint64_t offset, const std::byte* staged,
              std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    std::byte& sum = receive.destination[offset + i];
    sum = static_cast<std::byte>(std::to_integer<int>(sum) + std::to_integer<int>(staged[i]));
  }
}

// Receives step after step, and sends what the other side asks for.
class Side : public FabricListener {
 public:
  Side() : link(options, NodeId{}, *this) {}

  void OnNodeUp(const NodeIdentity&) override { ++ups; }
  void OnNodeLost(const NodeId&, const absl::Status& why) override {
    lost.push_back(std::string(why.message()));
  }
  void OnControl(const NodeId&, std::span<const std::byte>) override {}
  void OnEager(const NodeId&, const wire::FrameHeader&, std::span<const std::byte>) override {}
  void OnGrant(const NodeId&, const wire::FrameHeader& grant) override {
    wire::FrameHeader header;
    header.type = wire::FrameType::kData;
    header.number = grant.number;
    for (std::size_t at = 0; at < source.size(); at += kChunk) {
      header.offset = at;
      header.payload_bytes =
          static_cast<std::uint32_t>(std::min<std::size_t>(kChunk, source.size() - at));
      ASSERT_TRUE(link.Send(header, source.data() + at, 1).ok());
      ++sent;
    }
  }
  void OnCredit(const NodeId&, const wire::FrameHeader&) override {}
  void OnDataReceived(const NodeId&, const wire::FrameHeader& header) override {
    received += header.payload_bytes;
    if (received < target.size()) return;
    // Complete: it must be right, and nothing may touch it any more.
    const std::byte added = number % 2 == 0 ? std::byte{1} : std::byte{0};
    for (std::size_t i = 0; i < target.size(); ++i) {
      const int expected = std::to_integer<int>(theirs[i]) + std::to_integer<int>(added);
      if (target[i] != static_cast<std::byte>(expected)) ++wrong;
    }
    if (number < last) Ask();
  }
  void OnDataReleased(const NodeId&, std::uint64_t) override { ++released; }
  void OnWithdrawn(const NodeId&, const OperationKey&) override {}

  // The next step: copied where its number is odd, added where it is even.
  void Ask() {
    ++number;
    received = 0;
    std::fill(target.begin(), target.end(), number % 2 == 0 ? std::byte{1} : std::byte{0});
    PostedReceive receive;
    receive.key.number = number;
    receive.bytes = target.size();
    receive.destination = target.data();
    if (number % 2 == 0) receive.place = AddBytes;
    ASSERT_TRUE(link.PostReceive(receive).ok());
    wire::FrameHeader grant;
    grant.type = wire::FrameType::kGrant;
    grant.number = number;
    ASSERT_TRUE(link.Send(grant, nullptr, 0).ok());
  }
  bool done() const { return number == last && received == target.size() && released == sent; }

  FabricOptions options;
  Link link;
  int ups = 0;
  std::vector<std::string> lost;
  std::vector<std::byte> source, theirs, target;
  std::uint64_t number = 0, last = 0, received = 0, wrong = 0, sent = 0, released = 0;
};

class TcpLinkTest : public testing::Test {
 protected:
  ~TcpLinkTest() override {
    for (const auto& [name, cut] : cuts) ::close(cut);
  }
  void Prepare(std::size_t bytes, std::uint64_t steps) {
    for (int i : {0, 1}) {
      sides[i].last = steps;
      sides[i].target.resize(bytes);
      sides[i].source.resize(bytes);
      for (std::size_t k = 0; k < bytes; ++k) {
        sides[i].source[k] =
            static_cast<std::byte>((k * 31 + k / 251 + static_cast<std::size_t>(i)) & 0x7f);
      }
    }
    sides[0].theirs = sides[1].source;
    sides[1].theirs = sides[0].source;
  }
  void Join() {
    const std::string name = "rail " + std::to_string(++joined);
    const std::array<int, 2> ends = ConnectedPair();
    cuts.emplace_back(name, ::dup(ends[0]));
    wire::Introduction told[2];
    Link::Standing standing[2];
    for (int i : {0, 1}) {
      standing[i] = sides[i].link.standing();
      told[i] = {};
      told[i].session = standing[i].session;
      told[i].known_peer_session = standing[i].known_peer_session;
      told[i].next_expected = standing[i].next_expected;
    }
    for (int i : {0, 1}) {
      auto rail = TcpRail::Create(platform::FileDescriptor(ends[i]), "here", "there", bell);
      ASSERT_TRUE(rail.ok());
      ASSERT_TRUE(sides[i]
                      .link
                      .AddRail(*std::move(rail), {name, name}, NodeIdentity{}, told[1 - i],
                               standing[i], platform::MonotonicNow())
                      .ok());
    }
  }
  void Poll() {
    std::size_t count = 0;
    for (Side& side : sides) {
      count += side.link.Poll(platform::MonotonicNow());
      side.link.FlushAcknowledgement();
    }
    if (count == 0) std::this_thread::yield();
  }
  // A minute is "never".
  template <typename Turn>
  void RunUntilDone(Turn turn) {
    for (Side& side : sides) side.Ask();
    const std::uint64_t deadline = platform::MonotonicNow() + 60'000'000'000;
    while (!(sides[0].done() && sides[1].done())) {
      Poll();
      turn();
      ASSERT_LT(platform::MonotonicNow(), deadline);
      for (const Side& side : sides) ASSERT_THAT(side.lost, IsEmpty());
    }
    for (const Side& side : sides) {
      EXPECT_EQ(side.wrong, 0u);
      EXPECT_EQ(side.ups, 1);
      EXPECT_EQ(side.link.posted_receives(), 0u);
      EXPECT_EQ(side.link.arrivals().kept_bytes(), 0u);
    }
  }

  platform::Wakeup bell;
  Side sides[2];
  std::vector<std::pair<std::string, int>> cuts;
  int joined = 0;
};

TEST_F(TcpLinkTest, CarriesStepAfterStepOverTwoConnections) {
  Prepare(1024 * 1024, 60);
  Join();
  Join();
  RunUntilDone([] {});
  const LinkSnapshot snapshot = sides[0].link.Snapshot();
  ASSERT_EQ(snapshot.rails.size(), 2u);
  for (const RailSnapshot& rail : snapshot.rails) EXPECT_GT(rail.sent_bytes, 1024 * 1024u);
}

// Why: the grant goes out on one rail, and its data comes on another, whose thread may not
// have taken the receive yet.
TEST_F(TcpLinkTest, FindsTheReceiveOfEachDataOnWhicheverConnectionItComes) {
  Prepare(4 * 1024, 300);
  for (int i = 0; i < 3; ++i) Join();
  RunUntilDone([] {});
  EXPECT_EQ(sides[0].link.direct_rails(), 3u);
}

// How: of three connections one is cut at a random moment, in the middle of whatever it
// carries, and replaced, again and again.
TEST_F(TcpLinkTest, GoesOnWhileConnectionsAreCut) {
  Prepare(2 * 1024 * 1024, 40);
  std::mt19937 random(1);
  for (int i = 0; i < 3; ++i) Join();
  int turns = 0;
  int cut = 0;
  RunUntilDone([&] {
    if (++turns % 50 != 0) return;
    const auto& [name, socket] = cuts[random() % cuts.size()];
    const bool there = sides[0].link.HasRailOver({name, name});
    if (there && sides[0].link.direct_rails() > 1 && random() % 2 == 0) {
      ::shutdown(socket, SHUT_RDWR);
      ++cut;
    }
    if (sides[0].link.direct_rails() < 3 && sides[1].link.direct_rails() < 3 && joined < 200) {
      Join();
    }
  });
  EXPECT_GT(cut, 0);
}

}  // namespace
}  // namespace mlxcomm::fabric
