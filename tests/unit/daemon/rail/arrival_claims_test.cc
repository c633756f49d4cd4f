// Numbers and bytes that several rails claim: one of them gets each, and what a rail gives back is
// not lost.
#include "daemon/rail/arrival_claims.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/rail/posted_receives.h"
#include "daemon/rail/receive_budget.h"

namespace mlxcomm::rail::arrival_claims_test {
namespace {

using Claim = ArrivalClaims::Claim;

TEST(ArrivalClaimsTest, GivesEachNumberOnce) {
  ArrivalClaims claims;
  EXPECT_EQ(claims.Take(1), Claim::kOurs);
  EXPECT_EQ(claims.Take(1), Claim::kTaken);
  EXPECT_EQ(claims.Take(wire::kWindow), Claim::kOurs);
  EXPECT_EQ(claims.Take(wire::kWindow + 1), Claim::kBeyond);
  EXPECT_EQ(claims.Take(wire::kSequenceMax), Claim::kBeyond);
  claims.OnReceived(1);
  EXPECT_EQ(claims.Take(1), Claim::kReceived);
  EXPECT_EQ(claims.Take(wire::kWindow + 1), Claim::kOurs);
}

TEST(ArrivalClaimsTest, ReportsADroppedCopyWhenAClaimIsGivenBack) {
  ArrivalClaims claims;
  EXPECT_EQ(claims.Take(1), Claim::kOurs);
  EXPECT_FALSE(claims.GiveBack(1));
  EXPECT_EQ(claims.Take(1), Claim::kOurs);
  EXPECT_EQ(claims.Take(1), Claim::kTaken);
  EXPECT_TRUE(claims.GiveBack(1));
  EXPECT_EQ(claims.Take(1), Claim::kOurs);
  claims.OnReceived(1);  // In another frame with this number.
  EXPECT_FALSE(claims.GiveBack(1));
  EXPECT_EQ(claims.Take(1 + wire::kWindow), Claim::kOurs);
}

// Why: a lost node is remembered for minutes, and these are half of its link's memory.
TEST(ArrivalClaimsTest, StartsAgainAtOneAfterItsMemoryWasFreed) {
  ArrivalClaims claims;
  claims.OnReceived(1);
  EXPECT_EQ(claims.Take(wire::kWindow + 1), Claim::kOurs);
  claims.FreeMemory();
  claims.Reset();
  EXPECT_EQ(claims.Take(1), Claim::kOurs);
  EXPECT_EQ(claims.Take(wire::kWindow), Claim::kOurs);
  EXPECT_EQ(claims.Take(wire::kWindow + 1), Claim::kBeyond);
  static_assert(sizeof(ArrivalClaims) < wire::kWindow, "it lies in each link");
}

// Why: two rails that both place a frame would add it twice.
// How: rails race for each number of many windows. Some give back what they got and request another
// copy; the loop continues once a whole window has been placed.
TEST(ArrivalClaimsTest, GivesEachNumberToOneOfManyThreads) {
  constexpr std::uint64_t kNumbers = 20 * wire::kWindow;
  constexpr int kThreads = 4;
  ArrivalClaims claims;
  auto placed = std::make_unique<std::array<std::atomic<int>, kNumbers + 1>>();
  std::atomic<std::uint64_t> received{0};
  std::vector<std::thread> rails;
  for (int thread = 0; thread < kThreads; ++thread) {
    rails.emplace_back([&, thread] {
      std::uint64_t random = static_cast<std::uint64_t>(thread) + 1;
      for (std::uint64_t s = 1; s <= kNumbers;) {
        switch (claims.Take(s)) {
          case Claim::kBeyond: std::this_thread::yield(); continue;
          case Claim::kTaken: {
            // The peer resends a dropped copy when requested: here, always.
            if ((*placed)[s].load(std::memory_order_relaxed) == 0) continue;
            break;
          }
          case Claim::kReceived: break;
          case Claim::kOurs:
            random = random * 6364136223846793005u + 1442695040888963407u;
            if (random >> 62 == 0) {
              (void)claims.GiveBack(s);
              continue;
            }
            (*placed)[s].fetch_add(1, std::memory_order_relaxed);
            break;
        }
        ++s;
      }
    });
  }
  while (received.load() < kNumbers) {
    const std::uint64_t next = received.load() + 1;
    if ((*placed)[next].load(std::memory_order_acquire) == 0) {
      std::this_thread::yield();
      continue;
    }
    claims.OnReceived(next);
    received.store(next);
  }
  for (std::thread& rail : rails) rail.join();
  for (std::uint64_t s = 1; s <= kNumbers; ++s) ASSERT_EQ((*placed)[s].load(), 1) << s;
}

TEST(ReceiveBudgetTest, GivesNoMoreThanItHasAndNothingOfALaterTurn) {
  using Got = ReceiveBudget::Claim;
  ReceiveBudget budget;
  ReceiveBudget::Share share = budget.Open(100);
  EXPECT_EQ(share.Take(60), Got::kOurs);
  EXPECT_EQ(share.Take(60), Got::kTooMuch);
  share.GiveBack(60);
  EXPECT_EQ(share.Take(100), Got::kOurs);
  EXPECT_EQ(share.Take(1), Got::kTooMuch);
  budget.Close();
  EXPECT_EQ(share.Take(1), Got::kOver);
  ReceiveBudget::Share later = budget.Open(50);
  share.GiveBack(60);  // From a rail that goes down late.
  EXPECT_EQ(share.Take(1), Got::kOver);
  EXPECT_EQ(later.Take(50), Got::kOurs);
  EXPECT_EQ(later.Take(1), Got::kTooMuch);
}

TEST(ReceiveBudgetTest, GivesEachByteToOneOfManyThreads) {
  ReceiveBudget budget;
  ReceiveBudget::Share share = budget.Open(300'000);
  std::atomic<std::uint64_t> got{0};
  std::vector<std::thread> rails;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    rails.emplace_back([&got, share, thread]() mutable {
      for (std::uint64_t i = 0; i < 50'000; ++i) {
        if (share.Take(1 + thread) != ReceiveBudget::Claim::kOurs) continue;
        if (i % 3 == 0) {
          share.GiveBack(1 + thread);
        } else {
          got.fetch_add(1 + thread);
        }
      }
    });
  }
  for (std::thread& rail : rails) rail.join();
  EXPECT_LE(got.load(), 300'000u);
  const std::uint64_t left = 300'000 - got.load();
  EXPECT_EQ(share.Take(left + 1), ReceiveBudget::Claim::kTooMuch);
  EXPECT_EQ(share.Take(left), ReceiveBudget::Claim::kOurs);
}

// How two rails of a link use what they read.
class PostedReceivesTest : public testing::Test {
 protected:
  using Place = PostedReceives::Place;
  PostedReceivesTest() {
    for (PostedReceives& rail : rails) rail.ShareClaims(claims);
    receive.key.number = 5;
    receive.bytes = 1000;
    receive.destination = target;
    share = budget.Open(receive.bytes);
  }
  void Expect() {
    for (PostedReceives& rail : rails) rail.Expect(receive, share);
  }
  static wire::FrameHeader Data(std::uint64_t sequence, std::uint64_t offset, std::uint32_t bytes) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kData;
    header.number = 5;
    header.sequence = sequence;
    header.offset = offset;
    header.payload_bytes = bytes;
    return header;
  }
  Place Begin(int rail, const wire::FrameHeader& header) {
    return rails[rail].Begin(header, &destination);
  }

  ArrivalClaims claims;
  ReceiveBudget budget;
  ReceiveBudget::Share share;
  PostedReceive receive;
  std::byte target[1000] = {};
  std::byte* destination = nullptr;
  PostedReceives rails[2];
};

TEST_F(PostedReceivesTest, PlacesAFrameOnOneRailOnly) {
  Expect();
  EXPECT_EQ(Begin(0, Data(1, 0, 600)), Place::kDirect);
  EXPECT_EQ(destination, target);
  EXPECT_EQ(Begin(1, Data(1, 0, 600)), Place::kDuplicate);
  EXPECT_EQ(Begin(1, Data(2, 600, 400)), Place::kDirect);
  EXPECT_TRUE(rails[0].Complete(Data(1, 0, 600), nullptr));
  EXPECT_TRUE(rails[1].Complete(Data(2, 600, 400), nullptr));
  // The receive is complete: data with a new number finds no room.
  EXPECT_EQ(Begin(0, Data(3, 0, 1)), Place::kOutside);
}

TEST_F(PostedReceivesTest, GivesBackWhatItHadBegunWhenTheRailEnds) {
  Expect();
  EXPECT_EQ(Begin(0, Data(1, 0, 1000)), Place::kDirect);
  EXPECT_EQ(rails[0].Abandon(), 0u);  // The peer knows, and resends it.
  EXPECT_EQ(Begin(1, Data(1, 0, 1000)), Place::kDirect);
  EXPECT_TRUE(rails[1].Complete(Data(1, 0, 1000), nullptr));
}

TEST_F(PostedReceivesTest, NamesTheFrameThatNoRailHasWhenACopyWasDropped) {
  Expect();
  EXPECT_EQ(Begin(0, Data(1, 0, 1000)), Place::kDirect);
  EXPECT_EQ(Begin(1, Data(1, 0, 1000)), Place::kDuplicate);
  EXPECT_EQ(rails[0].Abandon(), 1u);
  EXPECT_EQ(rails[0].Abandon(), 0u);
  EXPECT_EQ(Begin(1, Data(1, 0, 1000)), Place::kDirect);
}

// Why: a rail that has joined later cannot know all earlier withdrawals. If it dropped unknown
// data, it would drop data whose receive is waiting among the commands, count it as received, and
// it would never be resent.
TEST_F(PostedReceivesTest, AsksAgainForAReceiveThatWaitsAmongTheCommands) {
  rails[1].AssumeEarlierWithdrawals();
  for (const int rail : {0, 1}) {
    const wire::FrameHeader data = Data(1 + static_cast<std::uint64_t>(rail), 0, 500);
    EXPECT_EQ(Begin(rail, data), Place::kUnknown);
    rails[rail].Expect(receive, share);
    EXPECT_EQ(Begin(rail, data), Place::kDirect);
    EXPECT_TRUE(rails[rail].Complete(data, nullptr));
  }
}

TEST_F(PostedReceivesTest, JudgesUnknownDataAfterAllCommandsWereTaken) {
  rails[1].AssumeEarlierWithdrawals();
  EXPECT_EQ(Begin(0, Data(1, 0, 10)), Place::kUnknown);
  EXPECT_EQ(Begin(0, Data(1, 0, 10)), Place::kUnknown);  // Never requested.
  EXPECT_EQ(Begin(1, Data(2, 0, 10)), Place::kUnknown);
  EXPECT_EQ(Begin(1, Data(2, 0, 10)), Place::kDropped);
}

TEST_F(PostedReceivesTest, DropsDataOfAReceiveThatIsOverOnAnotherRail) {
  Expect();
  budget.Close();  // Complete, or withdrawn; this rail does not know yet.
  EXPECT_EQ(Begin(0, Data(1, 0, 10)), Place::kDropped);
  EXPECT_FALSE(rails[0].Complete(Data(1, 0, 10), nullptr));
  rails[0].ForgetCompleted(receive.key, receive.step);
  EXPECT_EQ(Begin(0, Data(1, 0, 10)), Place::kDuplicate);
}

TEST_F(PostedReceivesTest, DropsTheRestOfAFrameThatIsWithdrawn) {
  Expect();
  EXPECT_EQ(Begin(0, Data(1, 0, 1000)), Place::kDirect);
  EXPECT_FALSE(rails[1].Forget(receive.key));
  EXPECT_TRUE(rails[0].Forget(receive.key));
  EXPECT_FALSE(rails[0].Complete(Data(1, 0, 1000), nullptr));
  EXPECT_EQ(Begin(1, Data(2, 0, 10)), Place::kUnknown);
  EXPECT_EQ(Begin(1, Data(2, 0, 10)), Place::kDropped);
}

// Why: a payload is combined while it is read. If its rail ends within it, it arrives again on
// another rail and is combined from the beginning.
class PlacingInPartsTest : public PostedReceivesTest {
 protected:
  static constexpr std::uint32_t kBytes = 100'000;
  PlacingInPartsTest() {
    receive.bytes = kBytes;
    receive.operand = operand.data();
    receive.destination = sum.data();
    receive.place = [](const PostedReceive& to, std::uint64_t offset, const std::byte* staged,
                       std::uint32_t bytes) {
      for (std::uint32_t i = 0; i < bytes; ++i) {
        to.destination[offset + i] = static_cast<std::byte>(
            std::to_integer<int>(to.operand[offset + i]) + std::to_integer<int>(staged[i]));
      }
    };
    share = budget.Open(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) staged[i] = static_cast<std::byte>(i * 7);
  }
  static std::size_t Placed(const std::vector<std::byte>& in) {
    std::size_t placed = 0;
    while (placed < kBytes && in[placed] == static_cast<std::byte>(placed * 7 + 3)) ++placed;
    return placed;
  }
  std::vector<std::byte> operand = std::vector<std::byte>(kBytes, std::byte{3});
  std::vector<std::byte> sum = std::vector<std::byte>(kBytes, std::byte{0xee});
  std::vector<std::byte> staged = std::vector<std::byte>(kBytes);
};

TEST_F(PlacingInPartsTest, PlacesWhatHasArrivedAndTheRestAtTheEnd) {
  Expect();
  const wire::FrameHeader data = Data(1, 0, kBytes);
  EXPECT_EQ(Begin(0, data), Place::kStaged);
  rails[0].PlaceSome(data, staged.data(), 1000);  // Too little.
  EXPECT_EQ(Placed(sum), 0u);
  rails[0].PlaceSome(data, staged.data(), 70'000);
  EXPECT_GE(Placed(sum), 32'768u);
  EXPECT_LE(Placed(sum), 70'000u);
  EXPECT_TRUE(rails[0].Complete(data, staged.data()));
  EXPECT_EQ(Placed(sum), kBytes);
}

// A payload that is combined into its operand cannot be combined twice: it waits for all of it.
TEST_F(PlacingInPartsTest, StartsAgainOnAnotherRail) {
  for (const bool overwrites : {false, true}) {
    if (overwrites) receive.destination = operand.data();
    share = budget.Open(kBytes);
    Expect();
    const wire::FrameHeader data = Data(overwrites ? 2 : 1, 0, kBytes);
    EXPECT_EQ(Begin(0, data), Place::kStaged);
    rails[0].PlaceSome(data, staged.data(), 70'000);
    EXPECT_EQ(rails[0].Abandon(), 0u);
    EXPECT_EQ(Begin(1, data), Place::kStaged);
    EXPECT_TRUE(rails[1].Complete(data, staged.data()));
    EXPECT_EQ(Placed(overwrites ? operand : sum), kBytes);
  }
}

TEST_F(PlacingInPartsTest, PlacesNothingAfterAWithdrawal) {
  Expect();
  const wire::FrameHeader data = Data(1, 0, kBytes);
  EXPECT_EQ(Begin(0, data), Place::kStaged);
  EXPECT_TRUE(rails[0].Forget(receive.key));
  rails[0].PlaceSome(data, staged.data(), 70'000);
  EXPECT_EQ(Placed(sum), 0u);
}

}  // namespace
}  // namespace mlxcomm::rail::arrival_claims_test
