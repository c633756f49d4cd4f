// No exception leaves the C interface, because C, Python and Swift cannot catch it: when any
// allocation is refused, the call returns RESOURCE_EXHAUSTED, and works once there is memory again.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "client/lib/mlxcomm.h"
#include "tests/unit/client/lib/session_fixture.h"
#include "tests/unit/refused_memory.h"

namespace mlxcomm::client::no_memory_test {
namespace {

// Calls it with memory refused at its first allocation, its second, ..., until it succeeds. Returns
// how often memory was refused.
template <typename Call>
int UntilItDoesWell(mlxcomm_error& error, Call call) {
  for (int refused = 0;; ++refused) {
    refuse_after = refused;
    const mlxcomm_code code = call();
    refuse_after = -1;
    if (code == MLXCOMM_OK) return refused;
    EXPECT_EQ(code, MLXCOMM_RESOURCE_EXHAUSTED) << error.message;
    EXPECT_EQ(error.code, code);
    EXPECT_EQ(error.rank, -1);
    EXPECT_STRNE(error.message, "");
    if (testing::Test::HasFailure()) return -1;
  }
}

class NoMemoryTest : public SessionTest {
 protected:
  NoMemoryTest() : SessionTest(0, 1) {}
};

TEST_F(NoMemoryTest, JoiningCanBeTriedAgain) {
  mlxcomm_group_close(group);
  group = nullptr;
  const char* const job = "a job whose name is too long to be kept in a string itself";
  EXPECT_GT(UntilItDoesWell(error,
                            [&] { return mlxcomm_join(connection, job, 0, 1, 0, &group, &error); }),
            0);
  ASSERT_NE(group, nullptr);
  EXPECT_STREQ(mlxcomm_group_name(group), job);
}

TEST_F(NoMemoryTest, SplittingOperationsAndBuffers) {
  mlxcomm_group* part = nullptr;
  const char* const name = "a part whose name is too long to be kept in a string itself";
  EXPECT_GT(
      UntilItDoesWell(error, [&] { return mlxcomm_split(group, 0, 0, name, 0, &part, &error); }),
      0);
  void* buffer = nullptr;
  UntilItDoesWell(error,
                  [&] { return mlxcomm_buffer_allocate(connection, 4096, &buffer, &error); });
  const std::array<std::uint64_t, 1> counts{8};
  std::uint64_t ticket = 0;
  auto* const output = static_cast<float*>(buffer) + 64;
  EXPECT_GT(UntilItDoesWell(error,
                            [&] {
                              return mlxcomm_all_gather_v(part, buffer, output, counts.data(),
                                                          MLXCOMM_FLOAT32, 0, &ticket, &error);
                            }),
            0);
  UntilItDoesWell(error, [&] { return mlxcomm_wait(part, ticket, &error); });
  mlxcomm_group_close(part);
}

TEST_F(NoMemoryTest, MistakesAreToldOrMemoryIs) {
  for (int refused = 0; refused < 20; ++refused) {
    std::uint64_t ticket = 0;
    refuse_after = refused;
    const mlxcomm_code code = mlxcomm_all_reduce(group, nullptr, nullptr, 1000, MLXCOMM_FLOAT32,
                                                 MLXCOMM_SUM, 0, &ticket, &error);
    refuse_after = -1;
    EXPECT_TRUE(code == MLXCOMM_INVALID_ARGUMENT || code == MLXCOMM_RESOURCE_EXHAUSTED) << code;
  }
  EXPECT_EQ(error.code, MLXCOMM_INVALID_ARGUMENT) << error.message;
}

// Rank 0 of 2, so that the daemon is involved.
class NoMemoryInJobTest : public SessionTest {
 protected:
  NoMemoryInJobTest() : SessionTest(0, 2) {}
  // How many calls to the daemon began like this.
  std::size_t Reported(const std::string& what) {
    std::size_t count = 0;
    for (const std::string& line : attach.Log()) count += line.starts_with(what) ? 1 : 0;
    return count;
  }
};

// Why: these return nothing, so an exception would end the program; and other ranks wait for the
// daemon to learn of it.
TEST_F(NoMemoryInJobTest, WhoLeavesTellsTheDaemonEvenSo) {
  refuse_after = 0;
  mlxcomm_leave(group, "an end for which there is not even memory to say why it has come");
  refuse_after = -1;
  mlxcomm_leave(group, "again");
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_CANCELLED);
  EXPECT_EQ(Reported("detach for an end"), 1u);
}

TEST_F(NoMemoryInJobTest, ClosingTheWorldLeavesTheJobAndItCanBeJoinedAgain) {
  for (int refused = 0; refused < 4; ++refused) {
    refuse_after = refused;
    mlxcomm_group_close(group);
    refuse_after = -1;
    group = nullptr;
    ASSERT_EQ(mlxcomm_join(connection, "job", 0, 2, 0, &group, &error), MLXCOMM_OK)
        << error.message;
  }
}

// Why: a group that the daemon has made, and this process cannot keep, would keep its name and its
// place.
TEST_F(NoMemoryInJobTest, AGroupThatCannotBeHeldIsReleased) {
  attach.shrink = [](std::uint64_t, std::uint64_t) {
    FakeAttach::Answer answer;
    answer.group = 9;
    answer.name = "job";
    answer.members = 1;
    return answer;
  };
  mlxcomm_group* rest = nullptr;
  const int refused = UntilItDoesWell(error, [&] {
    rest = nullptr;
    return mlxcomm_shrink(group, 0, &rest, &error);
  });
  EXPECT_GT(refused, 0);
  ASSERT_NE(rest, nullptr);
  mlxcomm_group_close(group);
  group = rest;
}

}  // namespace
}  // namespace mlxcomm::client::no_memory_test
