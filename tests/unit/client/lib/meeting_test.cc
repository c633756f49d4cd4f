// The operations on a group's page, and each rank's result: ranks of one process on a page, their
// buffers in an arena each.
#include "client/lib/meeting.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/platform/shared_memory.h"
#include "proto/meeting/supervisor_side.h"

namespace mlxcomm::client::meeting_test {
namespace {

using meeting::Way;

constexpr std::uint64_t kFloat = sizeof(float);

// The inputs are at the beginning of an arena, the outputs at kOutput.
class MeetingTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kOutput = std::uint64_t{1} << 20;

  struct Rank {
    std::unique_ptr<Meeting> page;
    std::vector<std::byte> arena = std::vector<std::byte>(2 * kOutput);
    Meeting::Operation operation;

    float* input() { return reinterpret_cast<float*>(arena.data()); }
    float* output() { return reinterpret_cast<float*>(arena.data() + kOutput); }
  };

  void Open(std::uint32_t ranks) {
    auto made = platform::SharedSegment::Create("page", meeting::PageBytes(ranks));
    ASSERT_TRUE(made.ok());
    segment_ = std::make_unique<platform::SharedSegment>(*std::move(made));
    supervisor_.emplace(meeting::PageView(segment_->data(), ranks), 7);
    ranks_.resize(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ranks_[rank].page = Meeting::Map(::dup(segment_->descriptor()));
      ASSERT_NE(ranks_[rank].page, nullptr);
      EXPECT_EQ(ranks_[rank].page->group(), 7U);
      ranks_[rank].page->Begin(rank, 0);
    }
    ASSERT_TRUE(supervisor_->Reopen());
    for (int before = 0; before < 2; ++before) {
      for (Rank& rank : ranks_)
        ASSERT_EQ(Call(rank, Entry(OperationKind::kBarrier, 0)), Way::kDaemon);
    }
  }

  static queue::SubmissionEntry Entry(OperationKind kind, std::uint64_t count,
                                      std::uint32_t root = 0) {
    queue::SubmissionEntry entry{};
    entry.kind = kind;
    entry.data_type = DataType::kFloat32;
    entry.reduce_operator = ReduceOperator::kSum;
    entry.count = count;
    entry.peer_rank = root;
    entry.output_offset = kOutput;
    return entry;
  }
  Way Call(Rank& rank, queue::SubmissionEntry entry) {
    const std::uint64_t blocks =
        entry.kind == OperationKind::kReduceScatter || entry.kind == OperationKind::kAllToAll
            ? ranks_.size()
            : 1;
    rank.operation.entry = entry;
    return rank.page->Call(rank.arena.data(), blocks * entry.count * kFloat, 1, rank.operation);
  }
  // All ranks call it, and each ends it.
  void Meet(const queue::SubmissionEntry& entry) {
    for (Rank& rank : ranks_) ASSERT_EQ(Call(rank, entry), Way::kPage);
    for (Rank& rank : ranks_) {
      ASSERT_EQ(rank.page->Look(rank.operation), meeting::Progress::kMet);
      rank.page->Combine(rank.operation, rank.arena.data());
    }
    for (Rank& rank : ranks_) rank.page->End(rank.operation, 2);
  }
  Way WayOf(const queue::SubmissionEntry& entry) {
    Way way = Way::kDaemon;
    for (Rank& rank : ranks_) {
      way = Call(rank, entry);
      rank.page->End(rank.operation, 2);
    }
    return way;
  }

  std::unique_ptr<platform::SharedSegment> segment_;
  std::optional<meeting::SupervisorSide<>> supervisor_;
  std::vector<Rank> ranks_;
};

TEST_F(MeetingTest, AddsUpWhatLiesInTheSlotAndInCells) {
  Open(2);
  for (const std::uint64_t count : {1U, 26U, 27U, 1000U, 16U * 1024U}) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (std::uint64_t at = 0; at < count; ++at) {
        ranks_[rank].input()[at] = static_cast<float>(rank * 100 + at);
      }
    }
    Meet(Entry(OperationKind::kAllReduce, count));
    for (Rank& rank : ranks_) {
      for (std::uint64_t at = 0; at < count; ++at) {
        ASSERT_EQ(rank.output()[at], static_cast<float>(100 + 2 * at)) << count;
      }
    }
  }
}

TEST_F(MeetingTest, GivesEachRankWhatTheKindSays) {
  Open(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::uint32_t at = 0; at < 3; ++at) {
      ranks_[rank].input()[at] = static_cast<float>(10 * rank + at);
    }
  }
  Meet(Entry(OperationKind::kAllGather, 1));
  for (Rank& rank : ranks_) EXPECT_EQ(rank.output()[2], 20.0F);
  Meet(Entry(OperationKind::kReduceScatter, 1));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks_[rank].output()[0], static_cast<float>(30 + 3 * rank));
  }
  Meet(Entry(OperationKind::kAllToAll, 1));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks_[rank].output()[1], static_cast<float>(10 + rank));
  }
  Meet(Entry(OperationKind::kBroadcast, 2, /*root=*/1));
  for (Rank& rank : ranks_) EXPECT_EQ(rank.output()[1], 11.0F);
  ranks_[0].output()[0] = -1;
  Meet(Entry(OperationKind::kReduce, 1, /*root=*/2));
  EXPECT_EQ(ranks_[2].output()[0], 30.0F);
  EXPECT_EQ(ranks_[0].output()[0], -1.0F);
}

// Each rank would read all of it.
TEST_F(MeetingTest, LeavesToTheDaemonWhatItIsFasterWith) {
  Open(2);
  const std::uint64_t most = 64 * 1024 / kFloat;
  EXPECT_EQ(WayOf(Entry(OperationKind::kAllReduce, most)), Way::kPage);
  EXPECT_EQ(WayOf(Entry(OperationKind::kAllReduce, most + 1)), Way::kDaemon);
  EXPECT_EQ(WayOf(Entry(OperationKind::kReduceScatter, most / 2)), Way::kPage);
  EXPECT_EQ(WayOf(Entry(OperationKind::kReduceScatter, most / 2 + 1)), Way::kDaemon);
  EXPECT_EQ(WayOf(Entry(OperationKind::kAllReduce, UINT64_MAX / 2)), Way::kDaemon);
}

TEST_F(MeetingTest, TakesLessPerRankTheMoreRanksThereAre) {
  Open(5);
  EXPECT_EQ(WayOf(Entry(OperationKind::kAllReduce, 16 * 1024 / kFloat)), Way::kPage);
  EXPECT_EQ(WayOf(Entry(OperationKind::kAllReduce, 16 * 1024 / kFloat + 1)), Way::kDaemon);
}

TEST_F(MeetingTest, TakesNoPageThatIsNone) {
  EXPECT_EQ(Meeting::Map(-1), nullptr);
  auto small = platform::SharedSegment::Create("page", 64);
  EXPECT_EQ(Meeting::Map(::dup(small->descriptor())), nullptr);
  auto zeros = platform::SharedSegment::Create("page", meeting::PageBytes(2));
  EXPECT_EQ(Meeting::Map(::dup(zeros->descriptor())), nullptr);
  Open(2);
  // More ranks than it has memory for.
  meeting::PageView(segment_->data(), 2).header().ranks = 3;
  EXPECT_EQ(Meeting::Map(::dup(segment_->descriptor())), nullptr);
  meeting::PageView(segment_->data(), 2).header().ranks = 2;
  meeting::PageView(segment_->data(), 2).header().version = 99;
  EXPECT_EQ(Meeting::Map(::dup(segment_->descriptor())), nullptr);
}

}  // namespace
}  // namespace mlxcomm::client::meeting_test
