// Ranks as threads add up vectors on a page, while the daemon's thread closes and reopens it: real
// processors make the accesses whose orders schedules_test.cc explores.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "proto/meeting/rank_side.h"
#include "proto/meeting/supervisor_side.h"
#include "tests/unit/proto/meeting/page_memory.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::meeting::threads_test {
namespace {

// The daemon may read a call or an entry while a rank overwrites it, but detects that and drops the
// copy. For the thread sanitizer these are atomic words; contributions are read by memcpy, so that
// it checks that they are written before the announcement.
struct ThreadSteps : SystemSteps {
  static void Copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > sizeof(queue::SubmissionEntry)) {
      std::memcpy(to, from, bytes);
      return;
    }
    auto* const out = static_cast<std::uint64_t*>(to);
    const auto* const in = static_cast<const std::uint64_t*>(from);
    for (std::size_t word = 0; word < bytes / 8; ++word) {
      const auto value = __atomic_load_n(in + word, __ATOMIC_RELAXED);
      __atomic_store_n(out + word, value, __ATOMIC_RELAXED);
    }
  }
};

class Job {
 public:
  Job(std::uint32_t ranks, std::uint64_t operations)
      : ranks_(ranks), all_((1U << ranks) - 1), operations_(operations), ended_(operations) {}

  void Run() {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([this, rank] { Rank(rank).Run(*this); });
    }
    Supervise();
    for (std::thread& thread : threads) thread.join();
    std::uint64_t met = 0;
    for (const Ended& ended : ended_) {
      EXPECT_TRUE(ended.met == 0 || ended.submitted == 0);
      EXPECT_EQ(ended.met | ended.submitted, all_);
      met += ended.met != 0;
    }
    testing::Test::RecordProperty("met", std::to_string(met));
    EXPECT_GT(met, 0U);
    EXPECT_LT(met, operations_);
  }

 private:
  // In the slot, in any cell, in a cell that is chosen.
  static constexpr std::size_t kSmall = 10;
  static constexpr std::size_t kMiddle = 40;
  static constexpr std::size_t kMost = 1100;
  using Numbers = std::array<std::uint64_t, kMost>;

  // Ranks that ended it each way, a bit for each.
  struct Ended {
    std::atomic<std::uint32_t> met{0};
    std::atomic<std::uint32_t> submitted{0};
  };

  static std::size_t LengthOf(std::uint64_t number) {
    return number % 50 == 0 ? kMost : number % 5 == 0 ? kMiddle : kSmall;
  }
  static std::uint64_t Brought(std::uint32_t rank, std::uint64_t number, std::size_t at) {
    return (number << 8) + (at << 2) + rank;
  }

  void Submit(std::uint32_t rank, std::uint64_t number) {
    ASSERT_LT(number, operations_);
    const std::uint32_t before = ended_[number].submitted.fetch_or(1U << rank);
    EXPECT_EQ(before & 1U << rank, 0U) << "twice: rank " << rank << ", operation " << number;
    ended_[number].submitted.notify_all();
  }

  class Rank {
   public:
    explicit Rank(std::uint32_t rank) : rank_(rank) {}

    void Run(Job& job) {
      RankSide<ThreadSteps> side(job.memory_.view(), rank_, 0);
      std::mt19937_64 random(rank_);
      for (std::uint64_t number = 0; number < job.operations_; ++number) {
        // Sometimes another rank gets ahead.
        if (random() % 64 == 0) std::this_thread::yield();
        if (One(job, side, number)) continue;
        std::atomic<std::uint32_t>& submitted = job.ended_[number].submitted;
        for (std::uint32_t by = submitted; by != job.all_; by = submitted) submitted.wait(by);
      }
      ++job.ranks_out_;
    }

   private:
    // False: the daemon has it.
    bool One(Job& job, RankSide<ThreadSteps>& side, std::uint64_t number) {
      const std::size_t length = LengthOf(number);
      Numbers numbers{};
      for (std::size_t at = 0; at < length; ++at) numbers[at] = Brought(rank_, number, at);
      const CallWords call{1 + number % 3, length};
      const Called called = side.Call(
          {call, number % 97 != 0, reinterpret_cast<const std::byte*>(numbers.data()), length * 8},
          EntryOf(rank_, number));
      EXPECT_EQ(called.number, number);
      if (called.way != Way::kPage) {
        job.Submit(rank_, number);
        if (called.way == Way::kDaemonCloses) job.asked_ = true;
        return false;
      }
      const bool met = Wait(job, side, number, call);
      if (met) {
        job.ended_[number].met.fetch_or(1U << rank_);
        if (rank_ == 0) ++job.met_;
        AddUp(job, number, numbers);
      }
      side.End(number);
      if (met) side.Record({number + 1, number * 3, number * 5, call, {}});
      return met;
    }

    bool Wait(Job& job, RankSide<ThreadSteps>& side, std::uint64_t number, const CallWords& call) {
      std::uint32_t from = 0;
      for (std::uint32_t looks = 1;; ++looks) {
        switch (side.Look(number, call, from)) {
          case Progress::kMet: return true;
          case Progress::kAdopted: return false;
          case Progress::kDiffers: ADD_FAILURE() << "all call alike"; return false;
          case Progress::kWaits: break;
        }
        // A rank asks the daemon if the rank it waits for will not call. Asking after a time would
        // end all meetings on a busy machine.
        if (job.ended_[number].submitted != 0) job.asked_ = true;
        if (looks % 8 == 0 && CanPark()) {
          side.Sleep(number, from, 1'000'000);
        } else {
          std::this_thread::yield();
        }
      }
    }

    void AddUp(const Job& job, std::uint64_t number, Numbers& numbers) const {
      const std::size_t length = LengthOf(number);
      for (std::uint32_t other = 0; other < job.ranks_; ++other) {
        if (other == rank_) continue;
        Numbers theirs;
        ThreadSteps::Copy(theirs.data(), job.memory_.view().contribution(other, number, length * 8),
                          length * 8);
        for (std::size_t at = 0; at < length; ++at) numbers[at] += theirs[at];
      }
      for (std::size_t at = 0; at < length; ++at) {
        const std::uint64_t ranks = job.ranks_;
        ASSERT_EQ(numbers[at], ranks * Brought(0, number, at) + ranks * (ranks - 1) / 2);
      }
    }

    std::uint32_t rank_;
  };

  void Supervise() {
    std::mt19937_64 random(99);
    std::vector<Adopted> adopted;
    std::uint64_t close_at = 0;
    while (ranks_out_ < ranks_) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 128));
      if (asked_.exchange(false) || (supervisor_.open() && met_ >= close_at)) {
        adopted.clear();
        supervisor_.Close(adopted);
        for (const Adopted& taken : adopted) {
          EXPECT_EQ(taken.entry.ticket, taken.number);
          EXPECT_EQ(taken.entry.peer_rank, taken.rank);
          Submit(taken.rank, taken.number);
        }
      } else if (!supervisor_.open()) {
        // Some operations should meet before the daemon closes the page.
        close_at = met_ + random() % 4;
        supervisor_.Reopen();
      }
      supervisor_.TakeRecords([](std::uint32_t, const MetRecord& record) {
        EXPECT_EQ(record.began_ns, (record.number_plus_one - 1) * 3);
        EXPECT_EQ(record.ended_ns, (record.number_plus_one - 1) * 5);
      });
    }
  }

  std::uint32_t ranks_;
  std::uint32_t all_;
  std::uint64_t operations_;
  PageMemory memory_{ranks_};
  SupervisorSide<ThreadSteps> supervisor_{memory_.view(), 1};
  std::vector<Ended> ended_;
  std::atomic<std::uint64_t> met_{0};
  std::atomic<bool> asked_{false};
  std::atomic<std::uint32_t> ranks_out_{0};
};

TEST(MeetingThreadsTest, TwoRanksAddUpWhileThePageClosesAndReopens) { Job(2, Seeds(25'000)).Run(); }
TEST(MeetingThreadsTest, FourRanksAddUpWhileThePageClosesAndReopens) { Job(4, Seeds(5'000)).Run(); }

}  // namespace
}  // namespace mlxcomm::meeting::threads_test
