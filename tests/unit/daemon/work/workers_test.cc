// Work that goes to other threads and back, at every pace.
#include "daemon/work/workers.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/unit/never.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::workers_test {
namespace {

// Sums of two rows of numbers, each a work item.
class Sums {
 public:
  Sums(std::size_t pieces, std::size_t elements)
      : elements_(elements), a_(pieces * elements), b_(a_.size()), out_(a_.size()) {
    std::iota(a_.begin(), a_.end(), 0);
    std::iota(b_.begin(), b_.end(), 1000);
    for (std::size_t i = 0; i < pieces; ++i) {
      collective::LocalWork work;
      work.type = DataType::kInt32;
      work.op = ReduceOperator::kSum;
      work.elements = elements;
      work.input_count = 2;
      work.output_count = 1;
      work.inputs[0] = reinterpret_cast<const std::byte*>(&a_[i * elements]);
      work.inputs[1] = reinterpret_cast<const std::byte*>(&b_[i * elements]);
      work.outputs[0] = reinterpret_cast<std::byte*>(&out_[i * elements]);
      work_.push_back(work);
    }
  }
  const collective::LocalWork* operator[](std::size_t i) const { return &work_[i]; }
  bool IsDone(std::size_t piece) const {
    for (std::size_t i = piece * elements_; i < (piece + 1) * elements_; ++i) {
      if (out_[i] != a_[i] + b_[i]) return false;
    }
    return true;
  }

 private:
  std::size_t elements_;
  std::vector<std::int32_t> a_;
  std::vector<std::int32_t> b_;
  std::vector<std::int32_t> out_;
  std::vector<collective::LocalWork> work_;
};

// A policy for each number of workers: odd ones spin and yield.
queue::SchedulingPolicy Scheduling(std::uint32_t workers) {
  auto policy = queue::SchedulingPolicy::Choose(
      workers % 2 == 1 ? queue::Scheduling::kFewCores : queue::Scheduling::kManyCores, 2);
  policy.workers = workers;
  return policy;
}

// Workers ring and write these, so both outlive them.
class WorkersTest : public testing::Test {
 protected:
  platform::Wakeup bell;
  record::FlightRecorder recorder{"node"};
};

// Why: each result must wake a loop that has announced its sleep, in every interleaving.
// How: one work item at a time, so that both sides spin, announce and sleep.
TEST_F(WorkersTest, WakeALoopThatSleeps) {
  const Sums sums(1, 16);
  Workers workers(Scheduling(1), bell, recorder);
  std::vector<std::uint64_t> done;
  const std::uint64_t pieces = Seeds(500);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    ASSERT_TRUE(workers.Submit(sums[0], i, {}));
    while (workers.Poll(done) == 0) {
      if (!workers.PrepareToSleep()) continue;
      pollfd waited{bell.descriptor(), POLLIN, 0};
      ASSERT_EQ(::poll(&waited, 1, kNeverMs), 1) << "no worker rang for piece " << i;
      bell.Drain();
      workers.WakeUp();
    }
    ASSERT_EQ(done.back(), i);
    if (i % 3 == 0) std::this_thread::yield();  // Sometimes the worker sleeps first.
  }
}

// Why: the loop does refused work itself; accepted work must come back.
TEST_F(WorkersTest, RefuseWhatDoesNotFitAndLoseNothing) {
  const Sums sums(1, 4);
  Workers workers(Scheduling(1), bell, recorder);
  for (int round = 0; round < 3; ++round) {
    std::uint64_t given = 0;
    // Nothing polls, so no slot becomes free however fast the worker is.
    while (given < Workers::kWorksMax && workers.Submit(sums[0], given, {})) ++given;
    ASSERT_EQ(given, Workers::kWorksMax) << round;
    EXPECT_FALSE(workers.Submit(sums[0], given, {}));
    std::vector<std::uint64_t> done;
    while (done.size() < given) workers.Poll(done);
    std::sort(done.begin(), done.end());
    for (std::uint64_t i = 0; i < given; ++i) ASSERT_EQ(done[i], i);
  }
}

// Why: when the loop has ended nothing takes results any more; the daemon must end, too.
TEST_F(WorkersTest, EndThoughNoThreadTakesTheirResults) {
  const Sums sums(Workers::kWorksMax, 4);  // One for each: two of them work at once.
  Workers workers(Scheduling(2), bell, recorder);
  std::uint64_t given = 0;
  while (given < Workers::kWorksMax) {
    if (workers.Submit(sums[given], given, {})) ++given;
  }
}

// Why: free threads take a work item in pieces, and it is done with its last piece, whichever
// thread did that. Every element must be combined once.
// How: work items of many pieces, with a rest, done by workers and the loop in any mixture.
TEST_F(WorkersTest, ShareOneWorkItemAmongThemselvesAndTheLoop) {
  constexpr std::size_t kElements = 1'000'003;
  constexpr std::size_t kWorks = 6;
  const Sums sums(kWorks, kElements);
  Workers workers(Scheduling(3), bell, recorder);
  std::vector<std::uint64_t> done;
  for (std::size_t i = 0; i < kWorks; ++i) ASSERT_TRUE(workers.Submit(sums[i], i, {}));
  while (done.size() < kWorks) {
    static_cast<void>(workers.Help());  // There may be nothing to help with.
    workers.Poll(done);
  }
  EXPECT_FALSE(workers.Help());
  for (std::size_t i = 0; i < kWorks; ++i) ASSERT_TRUE(sums.IsDone(i)) << i;
}

// Why: on one core the worker may not run before all is done.
TEST_F(WorkersTest, LetTheLoopDoAllOfItIfItComesFirst) {
  const Sums sums(2, 300'000);
  Workers workers(Scheduling(1), bell, recorder);
  std::vector<std::uint64_t> done;
  for (std::uint64_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(workers.Submit(sums[round % 2], round, {}));
    while (workers.Help()) {
    }
    ASSERT_TRUE(workers.IsUnderWay()) << "the loop has not polled it";
    while (workers.Poll(done) == 0) {
    }
    ASSERT_FALSE(workers.IsUnderWay());
    ASSERT_EQ(done.back(), round);
  }
}

TEST_F(WorkersTest, EndWhileTheySleepAndWithoutAnyWork) {
  for (int i = 0; i < 100; ++i) const Workers workers(Scheduling(2), bell, recorder);
}

// Why: nothing else shows that the choice reaches the work items, and that their times reach the
// choice.
TEST_F(WorkersTest, LearnHowToStoreFromWhatTheyDid) {
  const Sums sums(1, 50'000);  // 600 kB read and written.
  Workers workers(Scheduling(1), bell, recorder, 1'000'000);
  collective::LocalWork work = *sums[0];
  work.step_bytes = 600'000;
  const reduce::StoredWork stored{work.type, work.input_count, work.step_bytes};
  ASSERT_EQ(workers.store_choice().Choose(stored), reduce::Stores::kNonTemporal);
  std::vector<std::uint64_t> done;
  for (std::uint64_t pass = 1; pass <= 32; ++pass) {
    ASSERT_TRUE(workers.Submit(&work, pass, {}));
    while (done.size() < pass) {
      workers.Help();
      workers.Poll(done);
    }
  }
  EXPECT_EQ(workers.store_choice().Choose(stored), reduce::Stores::kWholeLines) << "a trial";
  EXPECT_TRUE(sums.IsDone(0));
}

TEST_F(WorkersTest, DoNotExistIfNoneAreConfigured) {
  const Sums sums(1, 4);
  Workers workers(Scheduling(0), bell, recorder);
  EXPECT_FALSE(workers.Submit(sums[0], 1, {}));
  EXPECT_FALSE(workers.Help());
  EXPECT_TRUE(workers.PrepareToSleep());
  DoWork(*sums[0]);
  EXPECT_TRUE(sums.IsDone(0));
}

// Why: a slot is reused while threads that saw its last work item still access it, from both ends;
// whatever they take then must be a piece, and each only once.
// How: more work items than slots, of a few pieces each, taken by all threads at once; a few at a
// time, each with its own memory.
TEST_F(WorkersTest, ReuseASlotWhileOtherThreadsAccessIt) {
  constexpr std::uint64_t kElements = 50'000;  // Three pieces.
  constexpr std::uint64_t kWorks = 3 * Workers::kWorksMax;
  constexpr std::uint64_t kAtOnce = 8;
  const Sums sums(kAtOnce, kElements);
  Workers workers(Scheduling(3), bell, recorder);
  std::vector<std::uint64_t> done;
  std::vector<std::size_t> free(kAtOnce);
  std::iota(free.begin(), free.end(), 0u);
  std::uint64_t submitted = 0;
  for (std::size_t seen = 0; seen < kWorks;) {
    for (; !free.empty() && submitted < kWorks; ++submitted) {
      // Not while a thread still has a piece of an earlier work item in that memory.
      if (!workers.Submit(sums[free.back()], free.back(), {})) break;
      free.pop_back();
    }
    workers.Help();
    workers.Poll(done);
    for (; seen < done.size(); ++seen) free.push_back(done[seen]);
  }
  EXPECT_FALSE(workers.IsUnderWay());
  EXPECT_EQ(done.size(), kWorks);
  for (std::size_t i = 0; i < kAtOnce; ++i) EXPECT_TRUE(sums.IsDone(i));
}

}  // namespace
}  // namespace mlxcomm::workers_test
