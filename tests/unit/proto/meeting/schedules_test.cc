// Ranks and their daemon in all orders of their accesses to the page, within bounds, and with a
// rank's death before any of them. For larger bounds:
//
//   MLXCOMM_EXPLORE_PREEMPTIONS=3   preemptions of parties that could have continued; "any": no
//                                   bound
//   MLXCOMM_EXPLORE_DEATHS=1        deaths of ranks
//   MLXCOMM_EXPLORE_RANDOM=100000   random schedules of each scenario, from MLXCOMM_EXPLORE_SEED
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/seeds.h"

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !MLXCOMM_HAS_FEATURE(address_sanitizer) && !MLXCOMM_HAS_FEATURE(thread_sanitizer)
#include "tests/unit/proto/meeting/meeting_world.h"
#include "tests/unit/proto/meeting/page_memory.h"
#include "tests/unit/proto/meeting/planted_steps.h"

namespace mlxcomm::meeting::explorer {
namespace {

std::vector<Operation> Calls(std::size_t count, std::uint64_t bytes = 8) {
  std::vector<Operation> calls(count);
  for (std::size_t at = 0; at < count; ++at) calls[at] = {1 + at % 3, bytes, true};
  return calls;
}
RankScript Blocking(std::size_t count) { return {Calls(count)}; }
RankScript Asleep(std::size_t count) { return {Calls(count), 1, true}; }
RankScript Ahead(std::size_t count, std::size_t ahead) { return {Calls(count), ahead}; }
RankScript WithOne(std::size_t count, std::size_t at, const Operation& other) {
  RankScript script = Blocking(count);
  script.calls[at] = other;
  return script;
}

struct Named {
  const char* name;
  Scenario scenario;
  int preemptions;             // Without a death.
  int preemptions_with_death;  // If one rank dies.
};
std::ostream& operator<<(std::ostream& out, const Named& named) { return out << named.name; }

constexpr Act kReopen = Act::kReopen;
constexpr Act kClose = Act::kClose;

// Operations 0 and 1 go to the daemon, before the page is open.
std::vector<Named> Scenarios() {
  RankScript holds_2 = Ahead(12, 2);
  holds_2.last = 2;
  RankScript holds_3 = Blocking(5);
  holds_3.last = 3;
  const RankScript cells{Calls(4, kInlineBytes + 8)};
  const RankScript by_daemon = WithOne(4, 2, {2, 8, false});
  const RankScript refused = WithOne(4, 2, {3, 8, false, true});
  return {
      {"ClosesAtAnyPoint", {{Blocking(4), Blocking(4)}, {kReopen, kClose}, true, 2}, 2, 1},
      {"ReopensAtAnyPoint",
       {{Blocking(5), Blocking(5)}, {kReopen, kClose, kReopen}, true, 3},
       2,
       0},
      {"ClosesAndReopensTwice",
       {{Blocking(5), Blocking(5)}, {kReopen, kClose, kReopen, kClose}, true, 2},
       1,
       0},
      {"OpensForTheFirstTime", {{Blocking(4), Blocking(4)}, {kReopen, kClose}, false, 0}, 1, 0},
      {"Sleeps", {{Asleep(4), Asleep(4)}, {kReopen, kClose}, true, 3}, 2, 1},
      {"CallsAhead", {{Ahead(5, 2), Ahead(5, 2)}, {kReopen, kClose}, true, 3}, 2, 0},
      {"EndsOutOfOrder", {{holds_3, holds_3}, {kReopen, kClose}, true, 3}, 2, 1},
      {"BringsMoreThanFitsInline", {{cells, cells}, {kReopen, kClose}, true, 3}, 2, 1},
      {"CallsDifferentThings",
       {{Blocking(5), WithOne(5, 3, {9, 8, true})}, {kReopen, kClose}, true, 3},
       2,
       0},
      {"CallsWithDifferentSizes",
       {{Blocking(5), WithOne(5, 3, {1, 16, true})}, {kReopen, kClose}, true, 3},
       1,
       0},
      {"CallsWhatMayNotMeet", {{by_daemon, by_daemon}, {kReopen, kClose}, true, 2}, 2, 1},
      {"OneMayNotMeet", {{Blocking(4), by_daemon}, {kReopen, kClose}, true, 2}, 2, 0},
      {"OneIsRefused", {{Blocking(4), refused}, {kReopen, kClose}, true, 2}, 2, 1},
      {"BothAreRefused", {{refused, refused}, {kReopen, kClose}, true, 2}, 2, 1},
      {"CallsMoreThanThereAreSlots",
       {{Ahead(12, 9), Ahead(12, 9)}, {kReopen, kClose}, true, 10},
       1,
       0},
      {"OneIsAllSlotsBehind", {{Ahead(11, 8), Blocking(11)}, {kReopen, kClose}, true, 9}, 2, 0},
      {"OneWaitsForAnOldOneLast", {{holds_2, Blocking(12)}, {kReopen, kClose}, true, 10}, 3, 0},
      {"ThreeRanks", {{Blocking(4), Blocking(4), Blocking(4)}, {kReopen, kClose}, true, 3}, 1, 0},
      {"ThreeRanksSleep", {{Asleep(4), Asleep(4), Asleep(4)}, {kReopen, kClose}, true, 3}, 1, 0},
  };
}

std::string Steps(const Report& report) {
  std::string steps = report.violation + "\n";
  for (const std::string& step : report.steps) steps += "  " + step + "\n";
  return steps;
}

int Preemptions(int usual) {
  const char* const value = std::getenv("MLXCOMM_EXPLORE_PREEMPTIONS");
  if (value == nullptr) return usual;
  return std::string_view(value) == "any" ? Bounds::kAny : std::atoi(value);
}
std::uint64_t Number(const char* name, std::uint64_t usual) {
  const char* const value = std::getenv(name);
  return value == nullptr ? usual : std::strtoull(value, nullptr, 10);
}

class SchedulesTest : public testing::TestWithParam<Named> {};

void Explores(const Named& named, const Bounds& bounds) {
  MeetingWorld<ExploredSteps> world(named.scenario);
  const Report report = world.explorer().Explore(bounds);
  EXPECT_EQ(report.violation, "") << Steps(report);
  EXPECT_TRUE(report.complete);
  EXPECT_GT(world.submitted(), 0U);
  if (std::getenv("MLXCOMM_EXPLORE_PREEMPTIONS") != nullptr) {
    std::printf("%s: %d preemptions, %d deaths: %lu schedules, %lu states\n", named.name,
                bounds.preemptions, bounds.deaths, static_cast<unsigned long>(report.schedules),
                static_cast<unsigned long>(report.states));
  }
}

TEST_P(SchedulesTest, AgreeInAllOrders) {
  const int deaths = static_cast<int>(Number("MLXCOMM_EXPLORE_DEATHS", 0));
  Explores(GetParam(), {Preemptions(GetParam().preemptions), deaths});
}

TEST_P(SchedulesTest, AgreeIfARankDies) {
  Explores(GetParam(), {Preemptions(GetParam().preemptions_with_death), 1});
}

TEST_P(SchedulesTest, AgreeAtRandom) {
  MeetingWorld<ExploredSteps> world(GetParam().scenario);
  const Bounds bounds{Bounds::kAny, 1, Number("MLXCOMM_EXPLORE_RANDOM", Seeds(2000))};
  const Report report = world.explorer().TryAtRandom(bounds, Number("MLXCOMM_EXPLORE_SEED", 1));
  EXPECT_EQ(report.violation, "") << Steps(report);
}

INSTANTIATE_TEST_SUITE_P(, SchedulesTest, testing::ValuesIn(Scenarios()),
                         [](const auto& named) { return std::string(named.param.name); });

// A rank that writes records, and a daemon that reads them while the rank may overwrite them.
class RecordsWorld : public World {
 public:
  static constexpr std::uint64_t kWritten = kRecords + kRecords / 4 + 2;

  RecordsWorld() : explorer_(*this, 2, Base(), PageBytes(1)) {}
  Explorer& explorer() { return explorer_; }
  std::uint64_t most_left_out() const { return most_left_out_; }

  void Reset() override {
    std::memset(Base(), 0, kAreasOffset + sizeof(RankArea));
    daemon_.emplace(memory_.view(), 1);
    ready_ = false;
  }
  void Run(int party) override {
    if (party == 0) return RunRank();
    explorer_.WaitUntil([this] { return ready_; });
    std::uint64_t taken = 0;
    std::uint64_t last = 0;
    const std::uint64_t left_out = daemon_->TakeRecords([&](std::uint32_t, const MetRecord& it) {
      ++taken;
      const MetRecord written = Of(it.number_plus_one);
      if (it.number_plus_one <= std::exchange(last, it.number_plus_one) ||
          std::memcmp(&it, &written, sizeof it) != 0) {
        explorer_.Violated("a record that nobody has written");
      }
    });
    if (taken + left_out < kRecords) explorer_.Violated("records got lost");
    most_left_out_ = std::max(most_left_out_, left_out);
  }
  bool MayDie(int party) const override { return party == 0; }
  void Died(int) override {}
  bool Unblock() override { return false; }
  void AtEnd() override {}
  std::uint64_t StateHash() const override { return ready_; }
  std::string NameOf(const void* word) const override {
    return explorer::NameOf(PlaceOf(memory_.view(), word));
  }

 private:
  std::byte* Base() const { return reinterpret_cast<std::byte*>(&memory_.view().header()); }
  static MetRecord Of(std::uint64_t number) {
    return {number, number * 3, number * 5, {number * 7, number * 11}, {}};
  }
  void RunRank() {
    RankSide<ExploredSteps> side(memory_.view(), 0, 0);
    for (std::uint64_t number = 1; number <= kWritten; ++number) {
      side.Record(Of(number));
      if (number != kRecords) continue;
      ready_ = true;
      explorer_.BeginToExplore();
      explorer_.WaitUntil([] { return true; }, true);  // The daemon may be first.
    }
  }

  PageMemory memory_{1};
  Explorer explorer_;
  std::optional<SupervisorSide<ExploredSteps>> daemon_;
  bool ready_ = false;
  std::uint64_t most_left_out_ = 0;
};

TEST(RecordsTest, AreWholeInAllOrders) {
  RecordsWorld world;
  const Report report = world.explorer().Explore({Preemptions(1), 1});
  EXPECT_EQ(report.violation, "") << Steps(report);
  EXPECT_TRUE(report.complete);
  EXPECT_GT(world.most_left_out(), kRecords / 4) << "some were written over while it read";
}

// A party that writes the same value again, and then for one step a value that the other one must
// never see.
class WritesWorld : public World {
 public:
  Explorer& explorer() { return explorer_; }
  void Reset() override {
    for (auto& word : words_) word = 0;
  }
  void Run(int party) override {
    if (party == 0) {
      explorer_.BeginToExplore();
      ExploredSteps::Store(words_[0], std::uint64_t{0});
      ExploredSteps::Store(words_[1], std::uint64_t{1});
      ExploredSteps::Store(words_[1], std::uint64_t{0});
      return;
    }
    ExploredSteps::Load(words_[0]);
    if (ExploredSteps::Load(words_[1]) == 1) explorer_.Violated("seen");
  }
  bool MayDie(int) const override { return false; }
  void Died(int) override {}
  bool Unblock() override { return false; }
  void AtEnd() override {}
  std::uint64_t StateHash() const override { return 0; }
  std::string NameOf(const void*) const override { return "word"; }

 private:
  std::array<std::atomic<std::uint64_t>, 2> words_{};
  Explorer explorer_{*this, 2, reinterpret_cast<std::byte*>(words_.data()), sizeof words_};
};

// Why: the state before such a write was taken for the state after it, and the following steps were
// skipped; so was, without a bound on preemptions, the first step of a new party.
TEST(ExplorerTest, ContinuesAfterAWriteThatChangesNothing) {
  for (const int preemptions : {1, Bounds::kAny}) {
    WritesWorld world;
    EXPECT_EQ(world.explorer().Explore({preemptions, 0}).violation, "seen") << preemptions;
  }
}

struct Planted {
  Mistake mistake;
  const char* scenario;
  Bounds bounds;  // They suffice to find it.
};

class PlantedMistakesTest : public testing::TestWithParam<Planted> {};

TEST_P(PlantedMistakesTest, AreFound) {
  for (const Named& named : Scenarios()) {
    if (std::string_view(named.name) != GetParam().scenario) continue;
    PlantedSteps::Plant(GetParam().mistake);
    MeetingWorld<PlantedSteps> world(named.scenario);
    const Report report = world.explorer().Explore(GetParam().bounds);
    EXPECT_NE(report.violation, "") << report.schedules << " schedules";
    EXPECT_EQ(report.violation.find("NOT REPEATED"), std::string::npos);
    if (std::getenv("MLXCOMM_EXPLORE_PREEMPTIONS") != nullptr) {
      std::printf("after %lu schedules: %s\n", static_cast<unsigned long>(report.schedules),
                  report.violation.c_str());
    }
    return;
  }
  FAIL() << "no such scenario";
}

INSTANTIATE_TEST_SUITE_P(
    , PlantedMistakesTest,
    testing::Values(Planted{Mistake::kAnnouncesBeforeItCalls, "ClosesAtAnyPoint", {2, 0}},
                    Planted{Mistake::kReusesASlotAtOnce, "OneIsAllSlotsBehind", {2, 0}},
                    Planted{Mistake::kLeavesTheOffer, "ClosesAndReopensTwice", {2, 0}},
                    Planted{Mistake::kCallsInTheNextOpening, "ClosesAndReopensTwice", {1, 0}},
                    Planted{Mistake::kSleepsUnseen, "Sleeps", {2, 0}},
                    Planted{Mistake::kForgetsSleepersBeforeItWakes, "Sleeps", {1, 1}},
                    Planted{Mistake::kSettlesBeforeAllAreClosed, "ClosesAtAnyPoint", {2, 0}},
                    Planted{Mistake::kAdoptsAfterItWoke, "Sleeps", {3, 0}},
                    Planted{Mistake::kAnnouncesForNobody, "ClosesAtAnyPoint", {1, 1}},
                    Planted{Mistake::kDoesNotLookAgainAtDone, "OneIsAllSlotsBehind", {3, 0}},
                    Planted{Mistake::kDoesNotTurnTheWord, "Sleeps", {3, 0}},
                    Planted{Mistake::kAdoptsWithoutSaying, "ClosesAtAnyPoint", {1, 0}}),
    [](const auto& planted) { return std::to_string(static_cast<int>(planted.param.mistake)); });

}  // namespace
}  // namespace mlxcomm::meeting::explorer

#else

namespace mlxcomm::meeting {
namespace {

TEST(SchedulesTest, AgreeInAllOrders) {
  GTEST_SKIP() << "the explorer's fibers are for Linux, without the sanitizers that watch stacks";
}

}  // namespace
}  // namespace mlxcomm::meeting

#endif
