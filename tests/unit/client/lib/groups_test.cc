// Groups that split, shrink and are closed, from the client's side: the test plays the daemon and
// all other ranks.
#include <gmock/gmock.h>

#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/lib/mlxcomm.h"
#include "tests/unit/client/lib/session_fixture.h"

namespace mlxcomm::client::groups_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Values = std::vector<std::int32_t>;

constexpr std::uint64_t kPart = 21;
constexpr std::int32_t kOwn = -77;  // In Exchange: the client's value.

struct Made {
  mlxcomm_code code = MLXCOMM_OK;
  mlxcomm_group* group = nullptr;
  mlxcomm_error error{};
};

// Rank 1 of 4.
class GroupsTest : public SessionTest {
 protected:
  GroupsTest() : SessionTest(1, 4) {
    attach.split = [this](const FakeAttach::SplitCall& call) {
      split_calls.push_back(call);
      FakeAttach::Answer answer;
      answer.group = kPart;
      answer.name = "job/" + call.name;
      answer.members = static_cast<std::uint32_t>(call.ranks.size());
      for (std::uint32_t i = 0; i < call.ranks.size(); ++i) {
        if (call.ranks[i] == 1) answer.own_rank = i;
      }
      return answer;
    };
  }
  // On a thread of the test: the daemon's side continues in the meantime.
  std::future<Made> Split(std::int32_t color, std::int32_t key, const char* name = nullptr,
                          std::uint64_t timeout_ns = 0) {
    return std::async(std::launch::async, [=, this] {
      Made made;
      made.code = mlxcomm_split(group, color, key, name, timeout_ns, &made.group, &made.error);
      return made;
    });
  }
  // One all_gather of the world: `values` of all ranks, kOwn at the client's place. Returns the
  // client's values, and the entry.
  Values Exchange(Values values, queue::SubmissionEntry* entry_out = nullptr) {
    const queue::SubmissionEntry entry = daemon.Take();
    EXPECT_EQ(entry.kind, OperationKind::kAllGather);
    EXPECT_EQ(entry.data_type, DataType::kInt32);
    EXPECT_EQ(entry.group, kWorld);
    EXPECT_EQ(entry.count * 4, values.size());
    const auto* const own = daemon.At<std::int32_t>(entry.input_offset);
    const Values given(own, own + entry.count);
    auto* const out = daemon.At<std::int32_t>(entry.output_offset);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == kOwn) values[i] = given[i % entry.count];
      out[i] = values[i];
    }
    if (entry_out != nullptr) *entry_out = entry;
    daemon.Complete(entry.ticket);
    return given;
  }
  Made SplitWell(std::int32_t color, const char* name = nullptr) {
    std::future<Made> split = Split(color, 0, name);
    Exchange({color, 0, kOwn, kOwn, color, 0, color, 0});
    Exchange({0, kOwn, 0, 0});
    const Made made = split.get();
    EXPECT_EQ(made.code, MLXCOMM_OK) << made.error.message;
    return made;
  }
  void ExpectNothingIsLeftInTheArena() {
    void* all = nullptr;
    EXPECT_TRUE(Ok(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &all, &error)));
    mlxcomm_buffer_free(connection, all);
  }

  std::vector<FakeAttach::SplitCall> split_calls;
};

TEST_F(GroupsTest, SplitsInOrderOfKeyThenOfRank) {
  std::future<Made> split = Split(0, 5, "rows");
  EXPECT_THAT(Exchange({0, 5, kOwn, kOwn, 1, 0, 0, -2}), ElementsAre(0, 5));
  EXPECT_THAT(Exchange({0, kOwn, 0, 0}), ElementsAre(0));
  const Made made = split.get();
  ASSERT_EQ(made.code, MLXCOMM_OK) << made.error.message;
  ASSERT_EQ(split_calls.size(), 1u);
  EXPECT_EQ(split_calls[0].parent, kWorld);
  EXPECT_EQ(split_calls[0].number, 0u);
  EXPECT_THAT(split_calls[0].ranks, ElementsAre(3, 0, 1));
  EXPECT_EQ(split_calls[0].name, "rows");
  EXPECT_EQ(mlxcomm_rank(made.group), 2u);
  EXPECT_EQ(mlxcomm_size(made.group), 3u);
  EXPECT_STREQ(mlxcomm_group_name(made.group), "job/rows");
  EXPECT_STREQ(mlxcomm_member_node(made.group, 2), "node-2");
  EXPECT_EQ(mlxcomm_member_pid(made.group, 2), 102u);
  EXPECT_EQ(mlxcomm_member_pid(made.group, 3), 0u);
  const std::uint64_t ticket = Barrier(made.group);
  EXPECT_EQ(daemon.Take().group, kPart);
  daemon.Complete(ticket);
  EXPECT_EQ(mlxcomm_wait(made.group, ticket, &error), MLXCOMM_OK) << error.message;
  mlxcomm_group_close(made.group);
  EXPECT_THAT(attach.Log(), ElementsAre("release 21"));
  ExpectNothingIsLeftInTheArena();
}

TEST_F(GroupsTest, NumbersTheSplitsOfEachGroup) {
  const Made first = SplitWell(3);
  const Made second = SplitWell(3);
  ASSERT_EQ(split_calls.size(), 2u);
  EXPECT_EQ(split_calls[1].number, 1u);
  EXPECT_EQ(split_calls[1].name, "3") << "the color, where no name is given";
  mlxcomm_group_close(second.group);
  mlxcomm_group_close(first.group);
}

TEST_F(GroupsTest, TakesPartInTheExchangesOfAGroupThatItIsNotIn) {
  std::future<Made> split = Split(MLXCOMM_NO_GROUP, 0);
  Exchange({0, 0, kOwn, kOwn, 0, 0, -1, 0});
  Exchange({0, kOwn, 7, 0});  // Rank 2's failure concerns another part.
  const Made made = split.get();
  EXPECT_EQ(made.code, MLXCOMM_OK) << made.error.message;
  EXPECT_EQ(made.group, nullptr);
  EXPECT_THAT(split_calls, IsEmpty());
}

TEST_F(GroupsTest, NeedsNoDaemonForAPartOfOneRank) {
  std::future<Made> split = Split(8, 0);
  Exchange({0, 0, kOwn, kOwn, 0, 0, 0, 0});
  Exchange({0, kOwn, 0, 0});
  const Made made = split.get();
  ASSERT_EQ(made.code, MLXCOMM_OK) << made.error.message;
  EXPECT_THAT(split_calls, IsEmpty());
  EXPECT_EQ(mlxcomm_size(made.group), 1u);
  EXPECT_STREQ(mlxcomm_group_name(made.group), "job/8");
  EXPECT_EQ(mlxcomm_member_pid(made.group, 0), 101u) << "this rank's in the world";
  EXPECT_EQ(mlxcomm_wait(made.group, Barrier(made.group), &error), MLXCOMM_OK) << error.message;
  mlxcomm_group_close(made.group);
  EXPECT_THAT(attach.Log(), IsEmpty());
}

TEST_F(GroupsTest, GivesThePartTheDeadlineAndPlanOfTheGroup) {
  mlxcomm_group_set_timeout(group, 5'000'000'000);
  ASSERT_EQ(mlxcomm_group_set_plan(group, MLXCOMM_PLAN_RING, &error), MLXCOMM_OK);
  std::future<Made> split = Split(0, 0);
  queue::SubmissionEntry entry{};
  Exchange({0, 0, kOwn, kOwn, 0, 0, 0, 0}, &entry);
  EXPECT_LE(entry.timeout_ns, 5'000'000'000u);
  EXPECT_GT(entry.timeout_ns, 0u);
  Exchange({0, kOwn, 0, 0}, &entry);
  const Made made = split.get();
  ASSERT_EQ(made.code, MLXCOMM_OK) << made.error.message;
  EXPECT_LE(entry.timeout_ns, split_calls[0].timeout_ns) << "one deadline covers the whole";
  const std::uint64_t ticket = Barrier(made.group);
  entry = daemon.Take();
  EXPECT_EQ(entry.timeout_ns, 5'000'000'000u);
  EXPECT_EQ(entry.plan, PlanKind::kRing);
  daemon.Complete(ticket);
  mlxcomm_group_close(made.group);
}

TEST_F(GroupsTest, RefusesArgumentsBeforeAnybodyIsAsked) {
  mlxcomm_group* part = nullptr;
  const std::string long_name(101, 'x');
  EXPECT_EQ(mlxcomm_split(group, -2, 0, nullptr, 0, &part, &error), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("color: expected 0 or more, or MLXCOMM_NO_GROUP, got -2"));
  for (const char* const name : {"", "a\nb", "\xff", long_name.c_str()}) {
    EXPECT_EQ(mlxcomm_split(group, 0, 0, name, 0, &part, &error), MLXCOMM_INVALID_ARGUMENT);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("name: expected 1 to 100 bytes"), HasSubstr(", got ")));
  }
  EXPECT_EQ(mlxcomm_split(group, 0, 0, nullptr, 0, nullptr, &error), MLXCOMM_INVALID_ARGUMENT);
  void* const all = Allocate(FakeDaemon::kArenaBytes);
  EXPECT_EQ(mlxcomm_split(group, 0, 0, nullptr, 0, &part, &error), MLXCOMM_RESOURCE_EXHAUSTED);
  EXPECT_THAT(error.message, HasSubstr("for splitting a group"));
  mlxcomm_buffer_free(connection, all);
  const Made made = SplitWell(0);
  EXPECT_EQ(split_calls[0].number, 0u) << "what was never begun is not counted";
  mlxcomm_group_close(made.group);
}

TEST_F(GroupsTest, TellsTheOthersWhenItsOwnDaemonRefuses) {
  attach.split = [](const FakeAttach::SplitCall&) {
    return FakeAttach::Answer{.code = MLXCOMM_RESOURCE_EXHAUSTED, .message = "4096 groups"};
  };
  std::future<Made> split = Split(0, 0);
  Exchange({0, 0, kOwn, kOwn, 0, 0, 0, 0});
  EXPECT_THAT(Exchange({0, kOwn, 0, 0}), ElementsAre(MLXCOMM_RESOURCE_EXHAUSTED));
  const Made made = split.get();
  EXPECT_EQ(made.code, MLXCOMM_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(made.error.message, "4096 groups");
  EXPECT_EQ(made.group, nullptr);
  EXPECT_THAT(attach.Log(), IsEmpty());
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK) << "the parent works on";
}

TEST_F(GroupsTest, GivesThePartUpWhenAnotherOfItsRanksCouldNotMakeIt) {
  std::future<Made> split = Split(0, 0);
  Exchange({0, 0, kOwn, kOwn, 1, 0, 0, 0});
  Exchange({0, kOwn, 4, MLXCOMM_RESOURCE_EXHAUSTED});
  const Made made = split.get();
  EXPECT_EQ(made.code, MLXCOMM_RESOURCE_EXHAUSTED);
  EXPECT_EQ(made.error.rank, 3);
  EXPECT_THAT(made.error.message,
              AllOf(HasSubstr("rank 3 of group job"), HasSubstr("RESOURCE_EXHAUSTED")));
  EXPECT_EQ(made.group, nullptr);
  EXPECT_THAT(attach.Log(), ElementsAre("release 21"));
  ExpectNothingIsLeftInTheArena();
}

TEST_F(GroupsTest, MakesNothingWhenARankIsLostInTheFirstExchange) {
  std::future<Made> split = Split(0, 0);
  daemon.Complete(daemon.Take().ticket, MLXCOMM_RANK_LOST, "rank 2 is gone", 2, true);
  const Made made = split.get();
  EXPECT_EQ(made.code, MLXCOMM_RANK_LOST);
  EXPECT_EQ(made.error.rank, 2);
  EXPECT_THAT(split_calls, IsEmpty());
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_RANK_LOST);
  mlxcomm_group* part = nullptr;
  EXPECT_EQ(mlxcomm_split(group, 0, 0, nullptr, 0, &part, &error), MLXCOMM_RANK_LOST);
}

TEST_F(GroupsTest, ReleasesThePartWhenARankIsLostInTheSecondExchange) {
  std::future<Made> split = Split(0, 0);
  Exchange({0, 0, kOwn, kOwn, 0, 0, 0, 0});
  daemon.Complete(daemon.Take().ticket, MLXCOMM_RANK_LOST, "rank 2 is gone", 2, true);
  const Made made = split.get();
  EXPECT_EQ(made.code, MLXCOMM_RANK_LOST);
  EXPECT_EQ(made.group, nullptr);
  EXPECT_THAT(attach.Log(), ElementsAre("release 21"));
}

TEST_F(GroupsTest, TrustsNoGroupThatIsNotWhatItAskedFor) {
  attach.split = [](const FakeAttach::SplitCall&) {
    return FakeAttach::Answer{.group = kPart, .own_rank = 0, .name = "job/0", .members = 4};
  };
  std::future<Made> split = Split(0, 0);
  Exchange({0, 0, kOwn, kOwn, 0, 0, 0, 0});
  EXPECT_THAT(Exchange({0, kOwn, 0, 0}), ElementsAre(MLXCOMM_INTERNAL));
  EXPECT_EQ(split.get().code, MLXCOMM_INTERNAL);
  EXPECT_THAT(attach.Log(), ElementsAre("release 21"));
}

// Why: the range of the exchange belongs to the daemon until it reports the end.
TEST_F(GroupsTest, IsInterruptedAndGivesItsMemoryBackLater) {
  std::future<Made> split = Split(0, 0);
  const std::uint64_t ticket = daemon.Take().ticket;
  interrupt = true;
  const Made made = split.get();
  interrupt = false;
  EXPECT_EQ(made.code, MLXCOMM_CANCELLED);
  EXPECT_THAT(attach.Log(), ElementsAre("cancel 7"));
  void* all = nullptr;
  EXPECT_EQ(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &all, &error),
            MLXCOMM_RESOURCE_EXHAUSTED);
  daemon.Complete(ticket, MLXCOMM_CANCELLED, "rank 1 gave it up", 1, true);
  ExpectNothingIsLeftInTheArena();
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_CANCELLED);
}

TEST_F(GroupsTest, FailEachByItself) {
  const Made made = SplitWell(0);
  const std::uint64_t ticket = Barrier(made.group);
  EXPECT_EQ(Wait(ticket), MLXCOMM_INVALID_ARGUMENT) << "another group's";
  EXPECT_THAT(error.message, HasSubstr("no operation of this group"));
  daemon.Complete(ticket, MLXCOMM_MISMATCH, "rank 0 called send", 0, true);
  EXPECT_EQ(mlxcomm_wait(made.group, ticket, &error), MLXCOMM_MISMATCH);
  EXPECT_EQ(mlxcomm_group_failure(made.group, &error), MLXCOMM_MISMATCH);
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK);
  daemon.Complete(Barrier());
  mlxcomm_group_close(made.group);
}

TEST_F(GroupsTest, AllHearOfTheDaemonsDeath) {
  const Made made = SplitWell(0);
  const std::uint64_t ticket = Barrier();
  daemon.Die();
  EXPECT_EQ(Wait(ticket), MLXCOMM_DAEMON_LOST);
  EXPECT_EQ(mlxcomm_group_failure(made.group, &error), MLXCOMM_DAEMON_LOST);
  std::uint64_t another = 0;
  EXPECT_EQ(mlxcomm_barrier(made.group, 0, &another, &error), MLXCOMM_DAEMON_LOST);
  mlxcomm_group* rest = nullptr;
  EXPECT_EQ(mlxcomm_shrink(group, 0, &rest, &error), MLXCOMM_DAEMON_LOST);
  mlxcomm_group_close(made.group);
  EXPECT_THAT(attach.Log(), IsEmpty()) << "there is nobody to tell";
}

// How: every thread submits and waits on its own group; the daemon ends the older of two
// submissions last, so that readers pass on others' completions.
TEST_F(GroupsTest, AreUsedByAThreadEach) {
  constexpr int kRounds = 300;
  const Made made = SplitWell(0);
  const auto use = [&](mlxcomm_group* of, float* data) {
    for (int round = 0; round < kRounds; ++round) {
      mlxcomm_error own{};
      std::uint64_t ticket = 0;
      ASSERT_EQ(
          mlxcomm_all_reduce(of, data, data, 4, MLXCOMM_FLOAT32, MLXCOMM_SUM, 0, &ticket, &own),
          MLXCOMM_OK)
          << own.message;
      ASSERT_EQ(mlxcomm_wait(of, ticket, &own), MLXCOMM_OK) << own.message;
    }
  };
  float* const a = Allocate(16);
  float* const b = Allocate(16);
  std::thread world([&] { use(group, a); });
  std::thread part([&] { use(made.group, b); });
  for (int round = 0; round < kRounds; ++round) {
    const queue::SubmissionEntry first = daemon.Take();
    const queue::SubmissionEntry second = daemon.Take();
    EXPECT_NE(first.group, second.group);
    daemon.Complete(second.ticket);
    daemon.Complete(first.ticket);
  }
  world.join();
  part.join();
  mlxcomm_group_close(made.group);
}

TEST_F(GroupsTest, LeaveWithTheJobWhenTheWorldIsClosedFirst) {
  const Made made = SplitWell(0);
  mlxcomm_group_close(group);
  group = nullptr;
  std::uint64_t ticket = 0;
  EXPECT_EQ(mlxcomm_barrier(made.group, 0, &ticket, &error), MLXCOMM_CANCELLED);
  EXPECT_THAT(error.message, AllOf(HasSubstr("left the job"), HasSubstr("job/0")));
  mlxcomm_group* rest = nullptr;
  EXPECT_EQ(mlxcomm_shrink(made.group, 0, &rest, &error), MLXCOMM_CANCELLED);
  ASSERT_EQ(mlxcomm_join(connection, "next", 0, 2, 0, &group, &error), MLXCOMM_OK);
  mlxcomm_group_close(made.group);
  EXPECT_THAT(attach.Log(), ElementsAre("detach"));
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK);
}

// Why: a program that fails reports it, and need not exit because of that.
TEST_F(GroupsTest, LeaveForAFaultAtOnceAndOnce) {
  const Made made = SplitWell(0);
  mlxcomm_leave(made.group, "ValueError: no such layer");
  mlxcomm_leave(group, "again");
  std::uint64_t ticket = 0;
  for (mlxcomm_group* const open : {group, made.group}) {
    EXPECT_EQ(mlxcomm_barrier(open, 0, &ticket, &error), MLXCOMM_CANCELLED);
    EXPECT_THAT(error.message, HasSubstr("left the job: ValueError: no such layer"));
  }
  mlxcomm_group_close(made.group);
  mlxcomm_group_close(std::exchange(group, nullptr));
  EXPECT_THAT(attach.Log(), ElementsAre("detach for ValueError: no such layer"));
}

TEST_F(GroupsTest, ShrinkToWhatStandsForTheJobFromThenOn) {
  std::uint64_t timeout_reported = 0;
  attach.shrink = [&](std::uint64_t of, std::uint64_t timeout_ns) {
    EXPECT_EQ(of, kWorld);
    timeout_reported = timeout_ns;
    return FakeAttach::Answer{.group = 30, .own_rank = 1, .name = "job'", .members = 3};
  };
  mlxcomm_group_set_timeout(group, 4'000'000'000);
  const std::uint64_t ticket = Barrier();
  daemon.Take();
  daemon.Complete(ticket, MLXCOMM_RANK_LOST, "rank 3 is gone", 3, true);
  EXPECT_EQ(Wait(ticket), MLXCOMM_RANK_LOST);
  mlxcomm_group* rest = nullptr;
  ASSERT_EQ(mlxcomm_shrink(group, 0, &rest, &error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(timeout_reported, 4'000'000'000u);
  EXPECT_EQ(mlxcomm_size(rest), 3u);
  EXPECT_EQ(mlxcomm_rank(rest), 1u);
  EXPECT_STREQ(mlxcomm_group_name(rest), "job'");
  mlxcomm_group_close(group);
  group = rest;
  EXPECT_THAT(attach.Log(), ElementsAre("release 7")) << "the job goes on";
  const std::uint64_t next = Barrier();
  const queue::SubmissionEntry entry = daemon.Take();
  EXPECT_EQ(entry.group, 30u);
  EXPECT_EQ(entry.timeout_ns, 4'000'000'000u);
  daemon.Complete(next);
  EXPECT_EQ(Wait(next), MLXCOMM_OK) << error.message;
  mlxcomm_group_close(std::exchange(group, nullptr));
  EXPECT_THAT(attach.Log(), ElementsAre("release 7", "detach"));
}

TEST_F(GroupsTest, ShrinkToThisRankAlone) {
  attach.shrink = [](std::uint64_t, std::uint64_t) {
    return FakeAttach::Answer{.group = 30, .own_rank = 0, .name = "job'", .members = 1};
  };
  mlxcomm_group* rest = nullptr;
  ASSERT_EQ(mlxcomm_shrink(group, 0, &rest, &error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(mlxcomm_wait(rest, Barrier(rest), &error), MLXCOMM_OK) << error.message;
  mlxcomm_group_close(rest);
  EXPECT_THAT(attach.Log(), ElementsAre("detach"));
}

TEST_F(GroupsTest, PassOnWhyTheyCannotShrink) {
  attach.shrink = [](std::uint64_t, std::uint64_t) {
    return FakeAttach::Answer{.code = MLXCOMM_INVALID_ARGUMENT, .message = "it works"};
  };
  mlxcomm_group* rest = nullptr;
  EXPECT_EQ(mlxcomm_shrink(group, 0, &rest, &error), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "it works");
  EXPECT_EQ(rest, nullptr);
}

class WorldOfOneTest : public SessionTest {
 protected:
  WorldOfOneTest() : SessionTest(0, 1) {}
};

TEST_F(WorldOfOneTest, SplitsAndDoesNotShrink) {
  mlxcomm_group* part = nullptr;
  ASSERT_EQ(mlxcomm_split(group, 4, 0, "half", 0, &part, &error), MLXCOMM_OK) << error.message;
  EXPECT_STREQ(mlxcomm_group_name(part), "job/half");
  mlxcomm_group* inner = nullptr;
  ASSERT_EQ(mlxcomm_split(part, 0, 0, nullptr, 0, &inner, &error), MLXCOMM_OK) << error.message;
  EXPECT_STREQ(mlxcomm_group_name(inner), "job/half/0");
  EXPECT_EQ(mlxcomm_wait(inner, Barrier(inner), &error), MLXCOMM_OK) << error.message;
  mlxcomm_group* none = inner;
  ASSERT_EQ(mlxcomm_split(group, MLXCOMM_NO_GROUP, 0, nullptr, 0, &none, &error), MLXCOMM_OK);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(mlxcomm_shrink(group, 0, &none, &error), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("expected a group that has failed"));
  mlxcomm_group_close(part);
  mlxcomm_group_close(inner);
  EXPECT_THAT(attach.Log(), IsEmpty());
}

}  // namespace
}  // namespace mlxcomm::client::groups_test
