#include "daemon/node/system_checks.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/node/still_port.h"

namespace mlxcomm::node::system_checks_test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// Examines no machine, and counts how often it should have.
class CountedLooks final : public StillPort {
 public:
  int looks = 0;
  void CheckSystem() override { ++looks; }
};

// Why: examining a machine takes milliseconds, and any user may ask twenty times a second.
class SystemChecksTest : public testing::Test {
 protected:
  void Ask(std::uint64_t now_ns) {
    checkups.Ask(now_ns, [this](const v1::NodeCheckup& seen) { systems.push_back(seen.system()); });
  }
  static v1::NodeCheckup Seen(const std::string& system) {
    v1::NodeCheckup seen;
    seen.set_system(system);
    return seen;
  }

  static constexpr std::uint64_t kNow = 5'000 * kMs;
  CountedLooks port;
  SystemChecks checkups{port};
  std::vector<std::string> systems;
};

TEST_F(SystemChecksTest, LooksOnceForAllWhoAskMeanwhile) {
  Ask(kNow);
  Ask(kNow + kMs);
  EXPECT_EQ(port.looks, 1);
  EXPECT_TRUE(systems.empty());
  checkups.OnSystemChecked(Seen("first"), kNow + 2 * kMs);
  EXPECT_EQ(systems, (std::vector<std::string>{"first", "first"}));
  EXPECT_EQ(checkups.NextDeadline(), SystemChecks::kNever);
}

TEST_F(SystemChecksTest, TellsWhatItHasSeenUntilThatIsOld) {
  Ask(kNow);
  checkups.OnSystemChecked(Seen("first"), kNow);
  Ask(kNow + SystemChecks::kKeptNs - 1);
  EXPECT_EQ(systems.size(), 2u);
  EXPECT_EQ(port.looks, 1);
  Ask(kNow + SystemChecks::kKeptNs);
  EXPECT_EQ(systems.size(), 2u);
  EXPECT_EQ(port.looks, 2);
}

TEST_F(SystemChecksTest, AnswersWithoutALookThatDoesNotEnd) {
  Ask(kNow);
  EXPECT_EQ(checkups.NextDeadline(), kNow + SystemChecks::kPatienceNs);
  checkups.OnTime(kNow + SystemChecks::kPatienceNs);
  EXPECT_EQ(systems, std::vector<std::string>{""});
  Ask(kNow + SystemChecks::kPatienceNs);
  EXPECT_EQ(port.looks, 1) << "the first is still under way, in a thread of its own";
  checkups.OnSystemChecked(Seen("late"), kNow + SystemChecks::kPatienceNs + kMs);
  EXPECT_EQ(systems.back(), "late");
}

// Why: when an examination hangs, an hour-old result must not count as a current one.
TEST_F(SystemChecksTest, ForgetsWhatIsTooOld) {
  Ask(kNow);
  checkups.OnSystemChecked(Seen("first"), kNow);
  const std::uint64_t later = kNow + SystemChecks::kTooOldNs;
  Ask(later);
  checkups.OnTime(later + SystemChecks::kPatienceNs);
  EXPECT_EQ(systems, (std::vector<std::string>{"first", ""}));
}

TEST_F(SystemChecksTest, HasRoomForALimitedNumberOfCallers) {
  for (std::size_t i = 1; i < SystemChecks::kWaitingMax; ++i) Ask(kNow);
  EXPECT_TRUE(checkups.HasRoom());
  Ask(kNow);
  EXPECT_FALSE(checkups.HasRoom());
}

}  // namespace
}  // namespace mlxcomm::node::system_checks_test
