// The policy that a process chooses, and its values.
#include "proto/queue/scheduling_policy.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <sched.h>
#endif

namespace mlxcomm::queue::scheduling_policy_test {
namespace {

SchedulingPolicy Few(std::uint32_t cores) {
  return SchedulingPolicy::Choose(Scheduling::kFewCores, cores);
}
SchedulingPolicy Many(std::uint32_t cores) {
  return SchedulingPolicy::Choose(Scheduling::kManyCores, cores);
}
SchedulingPolicy Auto(std::uint32_t cores) {
  return SchedulingPolicy::Choose(Scheduling::kAuto, cores);
}

void ExpectFew(const SchedulingPolicy& policy) {
  EXPECT_TRUE(policy.waiting.gives_way);
  EXPECT_TRUE(policy.loop_drives_all);
  EXPECT_TRUE(policy.workers_avoid_loop);
  EXPECT_LT(policy.rail_spin_ns, Many(2).rail_spin_ns);
  EXPECT_EQ(policy.rail_in_flight_spin_ns, policy.rail_spin_ns);
}

void ExpectMany(const SchedulingPolicy& policy) {
  EXPECT_FALSE(policy.waiting.gives_way);
  EXPECT_FALSE(policy.loop_drives_all);
  EXPECT_FALSE(policy.workers_avoid_loop);
  EXPECT_TRUE(policy.loop_awaits_workers);
  EXPECT_GT(policy.rail_in_flight_spin_ns, policy.rail_spin_ns);
}

TEST(SchedulingPolicyTest, IsChosenByTheCoresByDefault) {
  for (const std::uint32_t cores : {1u, 2u, 4u}) ExpectFew(Auto(cores));
  for (const std::uint32_t cores : {5u, 12u, 192u}) ExpectMany(Auto(cores));
}

// Why: each policy must be testable on any machine.
TEST(SchedulingPolicyTest, IsTheConfiguredOneForAnyNumberOfCores) {
  for (const std::uint32_t cores : {1u, 2u, 4u, 5u, 12u}) {
    ExpectFew(Few(cores));
    ExpectMany(Many(cores));
  }
}

// Why: on one core, a thread that keeps the core while it waits for a worker delays itself.
TEST(SchedulingPolicyTest, LetsTheLoopKeepItsCoreOnlyIfThereIsAnother) {
  EXPECT_FALSE(Auto(1).loop_awaits_workers);
  EXPECT_FALSE(Few(1).loop_awaits_workers);
  EXPECT_TRUE(Auto(2).loop_awaits_workers);
  EXPECT_TRUE(Few(12).loop_awaits_workers);
}

TEST(SchedulingPolicyTest, HasAWorkerForEverySecondCoreButNotTooMany) {
  EXPECT_EQ(Auto(1).workers, 1u);
  EXPECT_EQ(Auto(2).workers, 1u);
  EXPECT_EQ(Auto(6).workers, 3u);
  EXPECT_EQ(Auto(192).workers, 4u);
  EXPECT_EQ(Few(12).workers, 2u) << "as on four cores";
  EXPECT_EQ(Many(2).workers, 2u) << "as on five";
}

#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
TEST(UsableCoresTest, AreThoseThatTheProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(UsableCores(), static_cast<std::uint32_t>(CPU_COUNT(&before)));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(UsableCores(), 1u);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}
#else
TEST(UsableCoresTest, AreSome) { EXPECT_GE(UsableCores(), 1u); }
#endif

}  // namespace
}  // namespace mlxcomm::queue::scheduling_policy_test
