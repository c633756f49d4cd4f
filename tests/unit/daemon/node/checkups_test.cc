#include "daemon/node/checkups.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/node/still_port.h"

namespace mlxcomm::node::checkups_test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// Examines no machine, and counts how often it should have.
class CountedLooks final : public StillPort {
 public:
  int looks = 0;
  void LookAtSystem() override { ++looks; }
};

// Why: examining a machine takes milliseconds, and any user may ask twenty times a second.
class CheckupsTest : public testing::Test {
 protected:
  bool Ask(std::uint64_t now_ns, Checkups::Caller caller = Checkups::Caller::kLocal) {
    return checkups.Ask(caller, now_ns,
                        [this](const v1::NodeCheckup& seen) { systems.push_back(seen.system()); });
  }
  static v1::NodeCheckup Seen(const std::string& system) {
    v1::NodeCheckup seen;
    seen.set_system(system);
    return seen;
  }

  static constexpr std::uint64_t kNow = 5'000 * kMs;
  CountedLooks port;
  Checkups checkups{port};
  std::vector<std::string> systems;
};

TEST_F(CheckupsTest, LooksOnceForAllWhoAskMeanwhile) {
  EXPECT_TRUE(Ask(kNow));
  EXPECT_TRUE(Ask(kNow + kMs));
  EXPECT_EQ(port.looks, 1);
  EXPECT_TRUE(systems.empty());
  checkups.OnSystemSeen(Seen("first"), kNow + 2 * kMs);
  EXPECT_EQ(systems, (std::vector<std::string>{"first", "first"}));
  EXPECT_EQ(checkups.NextDeadline(), Checkups::kNever);
}

TEST_F(CheckupsTest, TellsWhatItHasSeenUntilThatIsOld) {
  EXPECT_TRUE(Ask(kNow));
  checkups.OnSystemSeen(Seen("first"), kNow);
  EXPECT_TRUE(Ask(kNow + Checkups::kKeptNs - 1));
  EXPECT_EQ(systems.size(), 2u);
  EXPECT_EQ(port.looks, 1);
  EXPECT_TRUE(Ask(kNow + Checkups::kKeptNs));
  EXPECT_EQ(systems.size(), 2u);
  EXPECT_EQ(port.looks, 2);
}

TEST_F(CheckupsTest, AnswersWithoutALookThatDoesNotEnd) {
  EXPECT_TRUE(Ask(kNow));
  EXPECT_EQ(checkups.NextDeadline(), kNow + Checkups::kPatienceNs);
  checkups.OnTime(kNow + Checkups::kPatienceNs);
  EXPECT_EQ(systems, std::vector<std::string>{""});
  EXPECT_TRUE(Ask(kNow + Checkups::kPatienceNs));
  EXPECT_EQ(port.looks, 1) << "the first is still under way, in a thread of its own";
  checkups.OnSystemSeen(Seen("late"), kNow + Checkups::kPatienceNs + kMs);
  EXPECT_EQ(systems.back(), "late");
}

// Why: when an examination hangs, an hour-old result must not pass for a current one.
TEST_F(CheckupsTest, ForgetsWhatIsTooOld) {
  EXPECT_TRUE(Ask(kNow));
  checkups.OnSystemSeen(Seen("first"), kNow);
  const std::uint64_t later = kNow + Checkups::kTooOldNs;
  EXPECT_TRUE(Ask(later));
  checkups.OnTime(later + Checkups::kPatienceNs);
  EXPECT_EQ(systems, (std::vector<std::string>{"first", ""}));
}

// Why: a local doctor must not be refused because a peer asks often.
TEST_F(CheckupsTest, LetsOnlySoManyWaitAndKeepsPlacesForLocalCallers) {
  constexpr auto kPeer = Checkups::Caller::kPeer;
  constexpr std::size_t kOfPeers = Checkups::kWaitingMax - Checkups::kKeptForLocal;
  for (std::size_t i = 0; i < kOfPeers; ++i) EXPECT_TRUE(Ask(kNow, kPeer));
  EXPECT_FALSE(Ask(kNow, kPeer));
  for (std::size_t i = 0; i < Checkups::kKeptForLocal; ++i) EXPECT_TRUE(Ask(kNow));
  EXPECT_FALSE(Ask(kNow));
}

}  // namespace
}  // namespace mlxcomm::node::checkups_test
