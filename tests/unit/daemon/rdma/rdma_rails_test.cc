// Two fabrics over loopback with RDMA rails beside their connection, over the fake verbs: the rails
// are made automatically, carry data, end and come back, while the connection carries on.
#include <random>

#include "daemon/fabric/authentication.h"
#include "daemon/rdma/rail_setup.h"
#include "tests/unit/daemon/rdma/rdma_rails_fixture.h"

namespace mlxcomm::fabric::rdma_rails_test {
namespace {

TEST_F(RdmaRailsTest, MakesARailBesideTheConnectionAndCarriesOverBoth) {
  Join();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a) << "; " << Detail(*b);
  const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*a->fabric);
  EXPECT_EQ(links.at(0).rails_size(), 2);
  const v1::RailStatus& rail = *RailOf(links, v1::Transport::rdma);
  EXPECT_EQ(rail.security(), "plain");
  EXPECT_NE(rail.local_address().find("rdma_en1 127.0.0.1 queue pair"), std::string::npos)
      << rail.local_address();
  for (int i = 0; i < 5; ++i) Carry(8 * 1024 * 1024);
  EXPECT_EQ(a->up.size(), 1u);
  EXPECT_GT(RailOf(link::StatusOfLinks(*a->fabric), v1::Transport::rdma)->sent_bytes(), 1'000'000u);
}

// Why: the connection is the spare, and the layers above must not notice.
TEST_F(RdmaRailsTest, ComesBackAfterTheQueuePairHasFailed) {
  Join();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  for (int round = 0; round < 3; ++round) {
    control.Want("break rdma_en1");
    ASSERT_TRUE(RunUntil(both(), [&] { return BothDown(v1::Transport::rdma); }));
    Carry(1024 * 1024);
    control.Want("");
    ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a) << "; " << Detail(*b);
    Carry(1024 * 1024);
  }
  EXPECT_TRUE(a->lost.empty());
  EXPECT_TRUE(b->lost.empty());
}

// Why: Linux delays the removal of a device until no process has it open, and notifies none.
TEST_F(RdmaRailsTest, ClosesARemovedDeviceAndReopensItWhenItIsBack) {
  const std::string entry = rdma::FakeVerbsControl::EntryOf("rdma_en1");
  std::ofstream(entry) << "1";
  Join();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  control.Want("taken rdma_en1");
  std::filesystem::remove(entry);
  const auto is_reported = [&] { return Detail(*a).find("no RDMA device") != std::string::npos; };
  ASSERT_TRUE(RunUntil(both(), [&] { return !IsUp(*b, v1::Transport::rdma) && is_reported(); }))
      << Detail(*a);
  Carry(1024 * 1024);
  std::ofstream(entry) << "1";
  control.Want("");
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a) << "; " << Detail(*b);
  Carry(1024 * 1024);
  EXPECT_TRUE(a->lost.empty());
  EXPECT_TRUE(b->lost.empty());
  std::filesystem::remove(entry);
}

// Why: after idle hours the rail must still work, or its failure must be known.
// How: neither side sends anything; heartbeats pass over the queue pair itself, in both directions.
// When they no longer arrive, the rail ends although the connection beside it is alive.
TEST_F(RdmaRailsTest, SendsHeartbeatsWhileIdleAndEndsWithoutThem) {
  Join();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  const auto received = [](const Node& node) {
    const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*node.fabric);
    return RailOf(links, v1::Transport::rdma)->received_bytes();
  };
  idle = true;
  const std::uint64_t before[2] = {received(*a), received(*b)};
  const std::uint64_t sign = sizeof(wire::FrameHeader);
  ASSERT_TRUE(RunUntil(both(), [&] {
    return received(*a) >= before[0] + 10 * sign && received(*b) >= before[1] + 10 * sign;
  }));
  EXPECT_TRUE(BothUp());
  control.Want("mute rdma_en1");
  ASSERT_TRUE(RunUntil(both(), [&] { return BothDown(v1::Transport::rdma); }));
  EXPECT_TRUE(IsUp(*a, v1::Transport::tcp));
  control.Want("");
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a) << "; " << Detail(*b);
  EXPECT_TRUE(a->lost.empty());
}

// Why: the queue pair of a stopped daemon accepts messages without any notification.
// How: silence would be noticed only after an hour.
TEST_F(RdmaRailsTest, EndsWithTheConnectionOfAStoppedDaemon) {
  Join([](link::FabricOptions& options, rdma::RdmaOptions&) {
    options.heartbeat_timeout_ns = 3'600'000'000'000;
  });
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  b->fabric->Stop();
  ASSERT_TRUE(RunUntil({a.get()}, [&] { return !a->lost.empty(); }));
}

// Why: a connection that is cut does not mean that the daemon has stopped: the queue pair carries
// the channel.
TEST_F(RdmaRailsTest, CarriesTheChannelWhileTheConnectionIsDown) {
  Join();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  cable->PullOut();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothDown(v1::Transport::tcp); }));
  Carry(2 * 1024 * 1024);
  EXPECT_TRUE(BothUp());
  cable->PlugIn();
  ASSERT_TRUE(RunUntil(
      both(), [&] { return IsUp(*a, v1::Transport::tcp) && IsUp(*b, v1::Transport::tcp); }));
  EXPECT_EQ(a->up.size(), 1u);
  EXPECT_TRUE(a->lost.empty());
}

// Why: the connection's proof covers the queue pair beside it, and a key that is no longer accepted
// must not live on in one.
TEST_F(RdmaRailsTest, StaysIfTheConnectionIsProvedAgainAndEndsOtherwise) {
  Join([](link::FabricOptions& options, rdma::RdmaOptions&) {
    options.new_proof_timeout_ns = 1'000'000'000;
  });
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  const std::string made =
      RailOf(link::StatusOfLinks(*a->fabric), v1::Transport::rdma)->local_address();
  EXPECT_TRUE(ProvedWith(*a, 7));
  for (Node* const node : both()) node->fabric->SetKeys(KeysOf(8, 7));
  for (Node* const node : both()) node->fabric->SetKeys(KeysOf(8));
  ASSERT_TRUE(RunUntil(both(), [&] { return ProvedWith(*a, 8) && ProvedWith(*b, 8); }));
  EXPECT_EQ(RailOf(link::StatusOfLinks(*a->fabric), v1::Transport::rdma)->local_address(), made);
  Carry(1024 * 1024);

  cable->PullOut();  // Leaves no connection that could be proved again.
  ASSERT_TRUE(RunUntil(both(), [&] { return BothDown(v1::Transport::tcp); }));
  a->fabric->SetKeys(KeysOf(9));
  ASSERT_TRUE(RunUntil(both(), [&] { return !a->lost.empty(); }));
}

// Why: a device that corrupts messages longer than a frame does not report it, as before macOS
// 26.3.
TEST_F(RdmaRailsTest, SendsOneFramePerMessageIfADeviceSupportsNoMore) {
  control.Want("one_frame_only 1");
  Join([](link::FabricOptions& options, rdma::RdmaOptions& rdma) {
    const bool earlier = options.self.name == "b";
    rdma.limits = rdma::AppleLimits(earlier ? "26.2" : "26.3");
  });
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a) << "; " << Detail(*b);
  const std::uint64_t before = Rdma(*a).sent_bytes();
  for (int i = 0; i < 100 && Rdma(*a).sent_bytes() < before + 1024 * 1024; ++i)
    Carry(4 * 1024 * 1024);
  EXPECT_GE(Rdma(*a).sent_bytes(), before + 1024 * 1024);
}

// Why: a key holder may send anything.
// How: set-up messages of random bits, and repeated offers of one number, while rails are made;
// then it is quiet, and the rail is up.
TEST_F(RdmaRailsTest, SurvivesInvalidMessagesOfANeighbour) {
  Join();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  std::mt19937_64 random(1);
  const auto say = [&](Node& from, const Node& to, const rdma::RailSetup& message) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kRailSetup;
    header.payload_bytes = sizeof message;
    return from.links->Send(to.options.self.id, header,
                            reinterpret_cast<const std::byte*>(&message), 0);
  };
  for (int i = 0; i < 400; ++i) {
    rdma::RailSetup message{};
    message.kind = static_cast<rdma::SetupKind>(random() % 6);
    message.attempt = random() % 3;
    rail::PutText("127.0.0.1", message.sender_interface);
    rail::PutText("127.0.0.1", message.receiver_interface);
    message.services = static_cast<std::uint32_t>(random() % 3);
    message.message_bytes = 4096u << random() % 14;
    message.messages = 4 + static_cast<std::uint32_t>(random() % 4096);
    message.address.number = static_cast<std::uint32_t>(random());
    message.address.receives = 4;
    message.address.mtu_bytes = 1024;
    if (i % 3 == 0) {  // Random bits.
      for (std::size_t at = 0; at < sizeof message; at += 1 + random() % 40) {
        reinterpret_cast<std::uint8_t*>(&message)[at] ^= static_cast<std::uint8_t>(random());
      }
    }
    if (i % 2 == 0) message.address.number &= 0xffffff;
    ASSERT_TRUE(say(*a, *b, message).ok());
    ASSERT_TRUE(say(*b, *a, message).ok());
    if (i % 10 == 0) RunUntil(both(), [&, turns = 0]() mutable { return ++turns > 20; });
  }
  Carry(1024 * 1024);
  ASSERT_TRUE(
      RunUntil(both(), [&] { return BothUp() && rdma::FakeVerbsControl::QueuePairs() == 2; }))
      << Detail(*a) << "; " << Detail(*b);
  Carry(1024 * 1024);
  EXPECT_TRUE(a->lost.empty());
  EXPECT_TRUE(b->lost.empty());
}

TEST_F(RdmaRailsTest, ReportsThatTheOtherSideHasNone) {
  Join([](link::FabricOptions& options, rdma::RdmaOptions& rdma) {
    if (options.self.name == "b") rdma.library = "/nowhere/libverbs.so";
  });
  ASSERT_TRUE(RunUntil(both(), [&] {
    return Detail(*a).find("the other side: cannot load the verbs library") != std::string::npos;
  })) << Detail(*a);
}

TEST_F(RdmaRailsTest, SendsFromArenasWithoutACopy) {
  Join();
  Arena arena;
  a->fabric->AddMemory(arena.memory());
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  CarryUntilDirect(arena);
  const v1::RailStatus before = Rdma(*a);
  EXPECT_EQ(before.arena_regions(), 1u);
  EXPECT_GT(before.arena_regions_max(), 1u);
  // Each rail's share depends on its present speed.
  const auto sent_directly = [&] { return Rdma(*a).direct_bytes() - before.direct_bytes(); };
  for (int i = 0; i < 10 || (i < 300 && sent_directly() <= 1'000'000); ++i) Carry(arena.bytes());
  const v1::RailStatus after = Rdma(*a);
  const std::uint64_t direct = after.direct_bytes() - before.direct_bytes();
  const std::uint64_t copied = after.copied_bytes() - before.copied_bytes();
  RecordProperty("direct_bytes", std::to_string(direct));
  RecordProperty("copied_bytes", std::to_string(copied));
  EXPECT_GT(direct, 1'000'000u);
  EXPECT_LT(copied, direct / 10) << "headers, and the ends of chunks of 256 KiB";

  a->fabric->RemoveMemory(arena.bytes().data());
  arena.LetGo();
  // The driver's thread first uncounts it, then releases the memory.
  ASSERT_TRUE(
      RunUntil(both(), [&] { return Rdma(*a).arena_regions() == 0 && !arena.is_mapped(); }));
  Carry(1024 * 1024);
}

// Why: a driver that hangs may read posted memory at any time, long after its rail has ended and
// the client has left. Nothing waits for it, and the pages are kept for it.
TEST_F(RdmaRailsTest, KeepsAnArenaOnlyForADriverThatHangs) {
  Join();
  Arena arena;
  a->fabric->AddMemory(arena.memory());
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  CarryUntilDirect(arena);
  control.Want("delay_us 3000");  // So that some of it is still unread.
  std::vector<std::byte> target(Arena::kBytes);
  const std::uint64_t before = Rdma(*a).direct_bytes();
  // A rail that has become slow may get nothing in one round.
  std::ptrdiff_t expected = Released();
  const auto is_direct = [&] { return Rdma(*a).direct_bytes() > before; };
  for (int i = 0; i < 100 && !is_direct(); ++i) {
    SendChunks(*a, *b, arena.bytes(), target);
    expected += 32;
    ASSERT_TRUE(RunUntil(both(), [&] { return is_direct() || Released() == expected; }));
  }
  ASSERT_TRUE(is_direct());
  control.Want("delay_us 3000\nhang ibv_post_send\nhang ibv_poll_cq");
  ASSERT_TRUE(RunUntil(both(), [&] { return Released() == expected; }));
  EXPECT_TRUE(std::equal(target.begin(), target.end(), arena.bytes().begin()));
  a->fabric->RemoveMemory(arena.bytes().data());
  arena.LetGo();
  ASSERT_TRUE(RunUntil(both(), [&] { return BothDown(v1::Transport::rdma); }));
  EXPECT_TRUE(arena.is_mapped());
  Carry(1024 * 1024);

  control.Want("");
  ASSERT_TRUE(RunUntil(both(), [&] { return !arena.is_mapped() && BothUp(); })) << Detail(*a);
  EXPECT_EQ(Rdma(*a).arena_regions(), 0u);
}

}  // namespace
}  // namespace mlxcomm::fabric::rdma_rails_test
