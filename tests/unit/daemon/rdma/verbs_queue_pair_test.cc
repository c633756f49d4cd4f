#include <poll.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/daemon/rdma/fake_library.h"

namespace mlxcomm::rdma::verbs_queue_pair_test {
namespace {

class VerbsQueuePairTest : public FakeLibraryTest {
 protected:
  // Waits until `pair` has reported `count` completions; gives up after a minute.
  static std::vector<Completion> Await(QueuePair& pair, std::size_t count) {
    std::vector<Completion> reported;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (reported.size() < count && std::chrono::steady_clock::now() < end) {
      EXPECT_TRUE(pair.Arm().ok());
      Completion some[8];
      const auto got = pair.Poll(some);
      EXPECT_TRUE(got.ok()) << got.status();
      reported.insert(reported.end(), some, some + *got);
      pollfd waited{pair.descriptor(), POLLIN, 0};
      if (*got == 0) ::poll(&waited, 1, waited.fd < 0 ? 1 : 1000);
    }
    return reported;
  }
  static std::string AwaitFailure(QueuePair& pair) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      Completion some[8];
      const auto got = pair.Poll(some);
      if (!got.ok()) return std::string(got.status().message());
    }
    return "nothing failed";
  }
};

// Why: a machine without RDMA is normal, and its daemon must report why.
TEST_F(VerbsQueuePairTest, ReportsWhyThereIsNoLibrary) {
  const auto none = ListDevices("/nowhere/libverbs.so");
  EXPECT_TRUE(absl::IsNotFound(none.status()));
  EXPECT_NE(none.status().message().find("/nowhere/libverbs.so"), std::string::npos);

  const auto other = ListDevices("libm.so.6");
  EXPECT_NE(other.status().message().find("ibv_get_device_list"), std::string::npos)
      << other.status();
}

// Why: macOS's library is only known to have JACCL's functions. Without the others a queue pair is
// polled, its depth is the requested one, and a failure has a number.
TEST_F(VerbsQueuePairTest, CarriesMessagesWithTheRequiredFunctionsOnly) {
  library_ = FAKE_VERBS_LEAST;
  auto [a, b] = Connected();
  EXPECT_EQ(a->descriptor(), -1);
  EXPECT_EQ(a->messages(), Limits().messages_max);
  std::memset(a->Slot(a->messages()).data(), 7, 100);
  EXPECT_TRUE(a->PostSend(a->messages(), 100).ok());
  const std::vector<Completion> at_b = Await(*b, 1);
  ASSERT_EQ(at_b.size(), 1u);
  EXPECT_EQ(b->Slot(0)[50], std::byte{7});
  ASSERT_EQ(Await(*a, 1).size(), 1u);

  Want("break rdma_en2");
  EXPECT_EQ(AwaitFailure(*b), "a receive failed: status 1");
}

// Why: the daemon's own limit must come before the driver's, because a driver's EBUSY reads as if
// waiting would help.
TEST_F(VerbsQueuePairTest, RefusesTheEleventhQueuePairOfADevice) {
  const auto device = Open("rdma_en1");
  std::vector<std::unique_ptr<QueuePair>> pairs;
  const QueuePairShape shape{Service::kUnreliable, 4096, 4};
  for (int i = 0; i < 10; ++i) {
    auto made = device->MakeQueuePair(shape, Ipv4Gid(1));
    ASSERT_TRUE(made.ok()) << made.status();
    pairs.push_back(*std::move(made));
  }
  EXPECT_EQ(device->use().queue_pairs, 10u);
  EXPECT_EQ(device->use().regions, 10u);
  EXPECT_TRUE(absl::IsResourceExhausted(device->MakeQueuePair(shape, Ipv4Gid(1)).status()));

  pairs.clear();
  EXPECT_EQ(device->use().queue_pairs, 0u);
  EXPECT_TRUE(device->MakeQueuePair(shape, Ipv4Gid(1)).ok());
}

// Why: other processes may hold queue pairs that this daemon does not count.
TEST_F(VerbsQueuePairTest, ReportsThatOthersHoldTheQueuePairs) {
  Limits more;
  more.queue_pairs_max = 100;
  const auto device = Open("rdma_en1", more);
  const auto others = Open("rdma_en1", more);
  std::vector<std::unique_ptr<QueuePair>> pairs;
  const QueuePairShape shape{Service::kUnreliable, 4096, 4};
  for (int i = 0; i < 10; ++i) pairs.push_back(*others->MakeQueuePair(shape, Ipv4Gid(1)));
  const absl::Status refused = device->MakeQueuePair(shape, Ipv4Gid(1)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("other processes"), std::string::npos) << refused;
}

// Why: the granted depth, in frames, is the limit; not all drivers refuse posts beyond it, and they
// fail later.
TEST_F(VerbsQueuePairTest, PostsNoMoreThanWasGranted) {
  Want("grant 32");
  auto [a, b] = Connected();
  EXPECT_EQ(a->messages(), 32u / 5);
  EXPECT_EQ(b->messages(), 32u / 5);

  Want("grant 19");
  const Limits limits;
  const auto none =
      Open("rdma_en1")
          ->MakeQueuePair({limits.service, limits.message_bytes, limits.messages_max}, Ipv4Gid(1));
  EXPECT_TRUE(absl::IsResourceExhausted(none.status())) << none.status();
}

// Why: Macs' devices are known to carry data only between IPv4 GIDs, which appear some time after
// the cable is plugged in. The first GID belongs to an address other than the link's.
TEST_F(VerbsQueuePairTest, UsesAnIpv4GidAsSoonAsOneExists) {
  const QueuePairShape shape{Service::kUnreliable, 4096, 4};
  const Gid links = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
  Want("ipv4_gids_only 1\nno_ipv4 rdma_en1");
  const auto first = Open("rdma_en1");
  const auto second = Open("rdma_en2");
  {
    auto early = first->MakeQueuePair(shape, links);
    auto other = second->MakeQueuePair(shape, links);
    ASSERT_TRUE(early.ok()) << early.status();
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(GidText((*early)->address().gid), "fe80::1");
    EXPECT_FALSE((*early)->Connect((*other)->address()).ok());
  }
  Want("ipv4_gids_only 1");
  auto a = first->MakeQueuePair(shape, links);
  auto b = second->MakeQueuePair(shape, links);
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(GidText((*a)->address().gid), "127.0.0.1");
  EXPECT_TRUE((*a)->Connect((*b)->address()).ok());
  EXPECT_TRUE((*b)->Connect((*a)->address()).ok());
}

TEST_F(VerbsQueuePairTest, ReportsWhatIsMissing) {
  const auto device = Open("rdma_en1");
  const QueuePairShape shape{Service::kUnreliable, 4096, 4};
  EXPECT_TRUE(absl::IsNotFound(OpenDevice(library_, "rdma_en9", {}).status()));
  const auto reliable = device->MakeQueuePair({Service::kReliable, 4096, 4}, Ipv4Gid(1));
  EXPECT_TRUE(absl::IsUnimplemented(reliable.status())) << reliable.status();
  for (const char* call : {"ibv_create_cq", "ibv_create_qp", "ibv_reg_mr", "ibv_modify_qp"}) {
    Want(std::string("fail ") + call);
    EXPECT_TRUE(absl::IsUnavailable(device->MakeQueuePair(shape, Ipv4Gid(1)).status())) << call;
  }
  Want("down rdma_en1");
  const absl::Status down = device->MakeQueuePair(shape, Ipv4Gid(1)).status();
  EXPECT_NE(down.message().find("port 1 is down"), std::string::npos) << down;
  EXPECT_EQ(device->use().queue_pairs, 0u);
  EXPECT_EQ(device->use().regions, 0u);
}

// Why: the device may still write to memory that the driver does not release.
TEST_F(VerbsQueuePairTest, LeaksWhatTheDriverDoesNotGiveBack) {
  auto device = Open("rdma_en1");
  const QueuePairShape shape{Service::kUnreliable, 4096, 4};
  auto kept = *device->MakeQueuePair(shape, Ipv4Gid(1));
  std::byte* const memory = kept->Slot(0).data();
  Want("fail ibv_destroy_qp");
  kept.reset();
  memory[0] = std::byte{1};  // Still mapped.
  EXPECT_EQ(device->use().queue_pairs, 1u);
  EXPECT_EQ(device->use().regions, 1u);

  Want("fail ibv_dereg_mr");
  auto other = *device->MakeQueuePair(shape, Ipv4Gid(1));
  std::byte* const others = other->Slot(0).data();
  other.reset();
  others[0] = std::byte{1};
  EXPECT_EQ(device->use().queue_pairs, 1u);
  EXPECT_EQ(device->use().regions, 2u);
  Want("");
  device.reset();  // Its domain is in use, so it stays open.
  EXPECT_EQ(TakeFaults(), "");
}

// Why: the driver may keep reading what it does not release.
TEST_F(VerbsQueuePairTest, KeepsAnArenaThatTheDriverDoesNotRelease) {
  auto device = Open("rdma_en1");
  auto arena = std::make_shared<std::vector<std::byte>>(1 << 20);
  const std::weak_ptr<std::vector<std::byte>> is_kept = arena;
  std::byte* const data = arena->data();
  auto region = *device->Register({std::move(arena), data, 1 << 20}, data, 1 << 20);
  Want("fail ibv_dereg_mr");
  region.reset();
  EXPECT_FALSE(is_kept.expired());
  Want("");
}

TEST_F(VerbsQueuePairTest, ReportsAFailedCompletion) {
  auto [a, b] = Connected();
  Want("break rdma_en2");
  EXPECT_EQ(AwaitFailure(*b), "a receive failed: local length error");
}

}  // namespace
}  // namespace mlxcomm::rdma::verbs_queue_pair_test
