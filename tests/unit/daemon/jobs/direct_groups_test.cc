// A node whose local ranks meet directly: what the daemon does if one of them does not call, makes
// a different call, or ends.
//
// The ranks are RankSides over the page that the node made, in this thread; their submissions go
// through Node::OnSubmission, as from their queues.
#include "daemon/jobs/direct_groups.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/meeting/rank_side.h"
#include "tests/unit/daemon/node/lone_node.h"

namespace mlxcomm::jobs::direct_groups_test {
namespace {

using node::Heard;
using node::KeptAnswer;

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kArenaBytes = 4096;
constexpr std::uint64_t kOutputOffset = 2048;
constexpr std::uint64_t kMs = 1'000'000;

// Shared memory is the test's own memory.
class MemoryPort final : public node::StillPort {
 public:
  std::byte* MakePage(std::uint64_t, std::size_t bytes, const std::vector<SessionId>&) override {
    if (!makes_pages) return nullptr;
    page.assign(bytes / sizeof(Line), Line{});
    return reinterpret_cast<std::byte*>(page.data());
  }
  void GivePage(std::uint64_t, const std::vector<SessionId>&) override { given = true; }
  void DropPage(std::uint64_t) override { dropped = true; }
  void AnswerClose(SessionId session, std::uint64_t) override { closed_for.push_back(session); }
  std::optional<collective::Call> TakeOver(SessionId session,
                                           const queue::SubmissionEntry& entry) override {
    return *intake::CheckSubmission(session, entry, arenas[session].data(), kArenaBytes);
  }
  void Complete(SessionId session, std::uint64_t ticket, std::uint64_t, const Failure& failure,
                bool) override {
    completed[session][ticket] = failure;
  }

  struct alignas(4096) Line {
    std::array<std::byte, 4096> bytes{};
  };
  bool makes_pages = true;
  std::vector<Line> page;
  bool given = false;
  bool dropped = false;
  std::vector<SessionId> closed_for;
  std::map<SessionId, std::array<std::byte, kArenaBytes>> arenas;
  std::map<SessionId, std::map<std::uint64_t, Failure>> completed;
};

class DirectGroupsTest : public testing::Test, protected node::LoneNode<MemoryPort> {
 protected:
  DirectGroupsTest() : LoneNode(1'000 * kMs) {}
  // A rank's session has its number plus one.
  static SessionId SessionOf(std::uint32_t rank) { return rank + 1; }

  void Attach(SessionId session, const std::string& user, const std::string& job,
              std::uint32_t rank, Heard<v1::AttachReply>& heard) {
    node.OnSessionOpened(session, {session, user});
    v1::AttachRequest request;
    request.set_job(job);
    request.set_rank(rank);
    request.set_size(kRanks);
    node.Call(&Jobs::Attach, session, std::uint64_t{1}, request,
              std::make_unique<KeptAnswer<v1::AttachReply>>(heard));
  }
  void FormJob() {
    std::array<Heard<v1::AttachReply>, kRanks> heard;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      port.arenas[SessionOf(rank)].fill(std::byte{0});
      Attach(SessionOf(rank), "anna", "train", rank, heard[rank]);
    }
    node.EndTurn();
    for (const auto& one : heard) ASSERT_TRUE(one.reply.has_value());
    group = heard[0].reply->group();
  }
  // All ranks map the page, and call barriers until it is open for the next call.
  void OpenPage() {
    ASSERT_TRUE(port.given);
    const meeting::PageView view(reinterpret_cast<std::byte*>(port.page.data()), kRanks);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) ranks[rank].emplace(view, rank, 0);
    for (int barrier = 0; barrier < 8; ++barrier) CallAll(Barrier());
    Meet();
  }
  // An operation of both on the page.
  void Meet() {
    ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
    ASSERT_EQ(Call(1, Sum(1)).way, meeting::Way::kPage);
    EndMet(0);
    EndMet(1);
  }

  static queue::SubmissionEntry Barrier() {
    queue::SubmissionEntry entry{};
    entry.kind = OperationKind::kBarrier;
    entry.data_type = DataType::kFloat32;
    return entry;
  }
  static queue::SubmissionEntry Sum(std::uint64_t count) {
    queue::SubmissionEntry entry{};
    entry.kind = OperationKind::kAllReduce;
    entry.data_type = DataType::kInt64;
    entry.reduce_operator = ReduceOperator::kSum;
    entry.count = count;
    entry.output_offset = kOutputOffset;
    return entry;
  }
  void Put(std::uint32_t rank, std::int64_t value) {
    std::memcpy(port.arenas[SessionOf(rank)].data(), &value, sizeof value);
  }
  std::int64_t Got(std::uint32_t rank) {
    std::int64_t value = 0;
    std::memcpy(&value, port.arenas[SessionOf(rank)].data() + kOutputOffset, sizeof value);
    return value;
  }

  // As the client library does; the ticket is the number plus one.
  meeting::Called Call(std::uint32_t rank, queue::SubmissionEntry entry) {
    entry.group = group;
    entry.ticket = ++tickets[rank];
    const std::uint64_t bytes = entry.count * DataTypeBytes(entry.data_type);
    calls[rank] = meeting::WordsOf(entry.kind, entry.data_type, entry.reduce_operator,
                                   entry.peer_rank, entry.count);
    const meeting::Called called = ranks[rank]->Call(
        {calls[rank], bytes <= 1024, port.arenas[SessionOf(rank)].data(), bytes, now_ns}, entry);
    numbers[rank] = called.number;
    entry.tag = static_cast<std::uint32_t>(called.number);
    if (called.way == meeting::Way::kDaemonCloses) {
      entry.purpose = queue::SubmissionPurpose::kOperateAndClose;
    }
    if (called.way != meeting::Way::kPage) Submit(rank, entry);
    return called;
  }
  void Submit(std::uint32_t rank, const queue::SubmissionEntry& entry) {
    std::optional<collective::Call> call = port.TakeOver(SessionOf(rank), entry);
    node.OnSubmission(*call);
    Turn();
  }
  void Turn() {
    now_ns += 20 * kMs;
    node.AdvanceTo(now_ns);
    node.CarryOut();
    node.EndTurn();
  }
  // Both; operations on the page are ended there.
  void CallAll(const queue::SubmissionEntry& entry) {
    const bool met = Call(0, entry).way == meeting::Way::kPage;
    Call(1, entry);
    if (!met) return;
    EndMet(0);
    EndMet(1);
  }
  meeting::Progress Look(std::uint32_t rank) {
    std::uint32_t from = 0;
    return ranks[rank]->Look(numbers[rank], calls[rank], from);
  }
  void EndMet(std::uint32_t rank) {
    ASSERT_EQ(Look(rank), meeting::Progress::kMet);
    ranks[rank]->Record({numbers[rank] + 1, 10, 20, calls[rank], {}});
    ranks[rank]->End(numbers[rank]);
  }
  void AskToClose(std::uint32_t rank) {
    node.OnCloseAsked(SessionOf(rank), group);
    Turn();
  }
  const Failure* Completed(std::uint32_t rank) {
    const auto& of = port.completed[SessionOf(rank)];
    const auto found = of.find(tickets[rank]);
    return found == of.end() ? nullptr : &found->second;
  }
  FailureCode CodeOf(std::uint32_t rank) {
    const Failure* const failure = Completed(rank);
    return failure == nullptr ? FailureCode::kInternal : failure->code;
  }

  std::uint64_t group = 0;
  std::array<std::optional<meeting::RankSide<>>, kRanks> ranks;
  std::array<std::uint64_t, kRanks> tickets{};
  std::array<std::uint64_t, kRanks> numbers{};
  std::array<meeting::CallWords, kRanks> calls;
};

TEST_F(DirectGroupsTest, WithoutSharedMemoryTheDaemonCarriesOutEverything) {
  port.makes_pages = false;
  FormJob();
  EXPECT_FALSE(port.given);
}

class OpenPageTest : public DirectGroupsTest {
 protected:
  void SetUp() override {
    FormJob();
    OpenPage();
  }
};

// Why: other ranks wait for a rank that computes for a long time, and `status` and deadlines must
// reflect that.
TEST_F(OpenPageTest, AnOperationThatOneRankHasCalledIsTheDaemonsOnceTheRankAsks) {
  Put(0, 3);
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  AskToClose(0);
  EXPECT_EQ(port.closed_for, std::vector<SessionId>{SessionOf(0)});
  EXPECT_EQ(Look(0), meeting::Progress::kAdopted);
  EXPECT_EQ(Completed(0), nullptr);

  Put(1, 4);
  ASSERT_EQ(Call(1, Sum(1)).way, meeting::Way::kDaemon);
  EXPECT_EQ(CodeOf(0), FailureCode::kNone);
  EXPECT_EQ(CodeOf(1), FailureCode::kNone);
  EXPECT_EQ(Got(0), 7);
  EXPECT_EQ(Got(1), 7);
}

// The second one's operation is small, or too large for the page.
class DifferentCallsTest
    : public OpenPageTest,
      public testing::WithParamInterface<std::pair<std::uint64_t, meeting::Way>> {};

TEST_P(DifferentCallsTest, AreAMismatchForBoth) {
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  ASSERT_EQ(Call(1, Sum(GetParam().first)).way, GetParam().second);
  EXPECT_EQ(Look(0), meeting::Progress::kDiffers);
  AskToClose(0);
  EXPECT_EQ(CodeOf(0), FailureCode::kMismatch);
  EXPECT_EQ(CodeOf(1), FailureCode::kMismatch);
}

INSTANTIATE_TEST_SUITE_P(Counts, DifferentCallsTest,
                         testing::Values(std::pair(2, meeting::Way::kPage),
                                         std::pair(200, meeting::Way::kDaemon)));

TEST_F(OpenPageTest, WhatAllHadCalledEndsWellForTheSurvivorsOfALostRank) {
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  ASSERT_EQ(Call(1, Sum(1)).way, meeting::Way::kPage);
  node.OnSessionEnded(SessionOf(1), "its process ended");
  Turn();
  EXPECT_EQ(Look(0), meeting::Progress::kMet);
  EndMet(0);
  // The next one names the lost rank.
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kDaemon);
  ASSERT_EQ(CodeOf(0), FailureCode::kRankLost);
  EXPECT_EQ(Completed(0)->rank, 1);
}

TEST_F(OpenPageTest, WhatTheLostRankHadNotCalledFails) {
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  node.OnSessionEnded(SessionOf(1), "its process ended");
  Turn();
  EXPECT_EQ(Look(0), meeting::Progress::kAdopted);
  EXPECT_EQ(CodeOf(0), FailureCode::kRankLost);
}

TEST_F(OpenPageTest, ARankThatLeavesIsMissedByTheNextOperationAlone) {
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  ASSERT_EQ(Call(1, Sum(1)).way, meeting::Way::kPage);
  Heard<v1::DetachReply> heard;
  KeptAnswer<v1::DetachReply> answer(heard);
  node.Call(&Jobs::Detach, SessionOf(1), v1::DetachRequest(), answer);
  EndMet(0);
  Call(0, Sum(1));
  EXPECT_EQ(CodeOf(0), FailureCode::kRankLost);
}

// Why: opening and closing costs more than it gains if ranks call at very different times.
TEST_F(OpenPageTest, APageThatIsClosedSoonAfterEachOpeningOpensLaterAndLater) {
  std::vector<int> calls_until_open;
  for (int round = 0; round < 4; ++round) {
    AskToClose(0);
    int until_open = 0;
    while (Call(0, Barrier()).way == meeting::Way::kDaemon) {
      Call(1, Barrier());
      ASSERT_LT(++until_open, 1000);
    }
    ASSERT_EQ(Call(1, Barrier()).way, meeting::Way::kPage);
    EndMet(0);
    EndMet(1);
    calls_until_open.push_back(until_open);
  }
  EXPECT_GT(calls_until_open[2], calls_until_open[1]);
  EXPECT_GT(calls_until_open[3], calls_until_open[2]);
}

TEST_F(OpenPageTest, StatusAndMetricsCountWhatTheRanksDidByThemselves) {
  EXPECT_EQ(node.Metrics().jobs["running"], 1u);
  now_ns += 2'000 * kMs;
  Turn();
  std::vector<collective::RankActivity> activity;
  node.collectives().ForEach([&](const auto& one) { activity = one.Activity(0); });
  ASSERT_EQ(activity.size(), kRanks);
  EXPECT_EQ(activity[0].status.operations_done(), tickets[0]);
  EXPECT_EQ(activity[1].status.operations_done(), tickets[1]);
  EXPECT_GT(activity[0].status.operations_met(), 0u);
  EXPECT_LT(activity[0].status.operations_met(), tickets[0]) << "the first ones went to the daemon";
}

// Why: metrics were up to a second behind the ranks' direct operations.
TEST_F(OpenPageTest, MetricsCountWhatTheRanksHaveJustDone) {
  now_ns += 200 * kMs;
  node.Metrics();
  node.collectives().ForEach(
      [&](const auto& one) { EXPECT_EQ(one.Activity(0)[0].status.operations_done(), tickets[0]); });
}

// Why: a program may call, compute for a long time, and only then wait; its deadline counts from
// its call.
TEST_F(OpenPageTest, ACallThatNobodyWaitsForIsTheDaemonsAfterASecond) {
  queue::SubmissionEntry entry = Sum(1);
  entry.timeout_ns = 3'000 * kMs;
  ASSERT_EQ(Call(0, entry).way, meeting::Way::kPage);
  for (int second = 0; second < 2; ++second) {
    now_ns += 1'100 * kMs;
    Turn();
  }
  EXPECT_EQ(Look(0), meeting::Progress::kAdopted);
  EXPECT_EQ(Completed(0), nullptr);
  now_ns += 900 * kMs;
  Turn();
  EXPECT_EQ(CodeOf(0), FailureCode::kDeadlineExceeded);
}

// Why: the last operations of a job must not stay unreported for as long as nothing else happens.
TEST_F(OpenPageTest, LooksOnceMoreAtAPageThatWasClosed) {
  now_ns += 1'100 * kMs;
  Turn();
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  ASSERT_EQ(Call(1, Sum(1)).way, meeting::Way::kPage);
  AskToClose(0);
  EndMet(0);
  EndMet(1);
  EXPECT_LE(node.NextDeadline(), now_ns + 1'000 * kMs);
  std::vector<collective::RankActivity> activity;
  now_ns = node.NextDeadline();
  node.AdvanceTo(now_ns);
  node.EndTurn();
  node.collectives().ForEach([&](const auto& one) { activity = one.Activity(0); });
  EXPECT_EQ(activity[0].status.operations_done(), tickets[0]);
  EXPECT_EQ(activity[1].status.operations_done(), tickets[1]);
}

// Why: RANK_LOST says how many operations the lost rank had finished.
TEST_F(OpenPageTest, KnowsOfALostRankWhatItHadFinishedUpToItsEnd) {
  now_ns += 1'100 * kMs;
  Turn();
  for (int more = 0; more < 5; ++more) Meet();
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  const std::uint64_t finished = tickets[1];
  node.OnSessionEnded(SessionOf(1), "its process ended");
  Turn();
  ASSERT_EQ(CodeOf(0), FailureCode::kRankLost);
  EXPECT_NE(Completed(0)->message.find(std::to_string(finished) + " operations"), std::string::npos)
      << Completed(0)->message;
}

// Why: one user's groups must not keep another's ranks from meeting.
TEST_F(DirectGroupsTest, LeavesPagesForTheGroupsOfOtherUsers) {
  SessionId session = 1'000;
  const auto form = [&](const std::string& user, int job) {
    port.given = false;
    std::array<Heard<v1::AttachReply>, kRanks> heard;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      Attach(++session, user, "job-" + std::to_string(job), rank, heard[rank]);
    }
    node.EndTurn();
    EXPECT_TRUE(heard[0].reply.has_value());
    return port.given;
  };
  int pages = 0;
  while (form("anna", pages) && pages < 2'000) ++pages;
  EXPECT_EQ(pages, static_cast<int>(DirectGroups::kPagesPerUserMax));
  EXPECT_TRUE(form("bob", 0));
}

// Why: a group's number is not secret, and a page that is closed repeatedly is useless.
TEST_F(OpenPageTest, OthersCanNeitherCloseThePageNorAskAboutIt) {
  ASSERT_EQ(Call(0, Sum(1)).way, meeting::Way::kPage);
  constexpr SessionId kStranger = 77;
  node.OnSessionOpened(kStranger, {500, "eve"});
  node.OnCloseAsked(kStranger, group);
  v1::AwaitedRequest request;
  request.set_group(group);
  Heard<v1::AwaitedReply> heard;
  KeptAnswer<v1::AwaitedReply> answer(heard);
  node.Call(&Jobs::Awaited, kStranger, request, answer);
  EXPECT_EQ(Look(0), meeting::Progress::kWaits);
  // It is answered without counting as the end of an operation.
  EXPECT_EQ(port.closed_for, std::vector<SessionId>{kStranger});
  EXPECT_TRUE(port.completed[kStranger].empty());
}

// Why: a call's entry holds only the lower half of its number.
TEST_F(OpenPageTest, AnEntryWhoseNumberTheRankHasNotCalledIsNoneOfThePages) {
  queue::SubmissionEntry entry = Sum(1);
  entry.group = group;
  entry.ticket = ++tickets[0];
  entry.tag = 4'000'000'000;
  Submit(0, entry);
  EXPECT_EQ(Completed(0),
            nullptr);  // It waits for the others, like any operation that a rank has called.
}

}  // namespace
}  // namespace mlxcomm::jobs::direct_groups_test
