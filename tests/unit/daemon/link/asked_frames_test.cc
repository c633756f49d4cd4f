#include "daemon/link/asked_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace mlxcomm::link::asked_frames_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AskedFramesTest : public testing::Test {
 protected:
  // What an acknowledgement says, with `each` of them in one frame.
  std::vector<std::uint64_t> Say(std::size_t each = 2) {
    std::vector<std::uint64_t> said;
    asked.Begin([this](std::uint64_t sequence) { return come.contains(sequence); });
    do {
      for (std::size_t i = 0; i < each; ++i) {
        if (const std::optional<std::uint64_t> next = asked.Next(); next) said.push_back(*next);
      }
    } while (asked.NextRound());
    asked.End();
    return said;
  }
  void Want(std::initializer_list<std::uint64_t> all) {
    for (const std::uint64_t sequence : all) asked.Want(sequence);
  }

  AskedFrames asked;
  std::set<std::uint64_t> come;
};

// Why: each time that it is said, another copy comes.
TEST_F(AskedFramesTest, AreSaidOnce) {
  Want({7, 5, 9});
  EXPECT_THAT(Say(), ElementsAre(7, 5, 9));
  EXPECT_THAT(Say(), IsEmpty());
  Want({8});
  EXPECT_THAT(Say(), ElementsAre(8));
  EXPECT_FALSE(asked.empty());
  come = {5, 7, 8, 9};
  EXPECT_THAT(Say(), IsEmpty());
  EXPECT_TRUE(asked.empty());
}

TEST_F(AskedFramesTest, AreNotSaidOnceTheyHaveCome) {
  Want({5, 6, 7});
  come = {6};
  EXPECT_THAT(Say(), ElementsAre(5, 7));
}

// Why: its copy has come with a wrong sum as well.
TEST_F(AskedFramesTest, AreSaidAgainWhereTheyAreWantedAgain) {
  Want({5, 6});
  EXPECT_THAT(Say(), ElementsAre(5, 6));
  Want({5});
  EXPECT_THAT(Say(), ElementsAre(5));
  EXPECT_THAT(Say(), IsEmpty());
}

// Why: the acknowledgement that said so may have been lost, with its rail or alone.
TEST_F(AskedFramesTest, AreSaidAgainWhereThatMayHaveBeenLost) {
  Want({5, 6, 7});
  Say();
  asked.OnRailGone();
  EXPECT_THAT(Say(), ElementsAre(5, 6, 7));
  asked.AskAgain();
  EXPECT_THAT(Say(), ElementsAre(5, 6)) << "as many as go into one";
  EXPECT_THAT(Say(), IsEmpty());
  asked.AskAgain();
  Want({8});
  EXPECT_THAT(Say(), ElementsAre(5, 6, 8));
}

TEST_F(AskedFramesTest, AreForgottenWithTheSession) {
  Want({5});
  asked.AskAgain();
  asked.Clear();
  EXPECT_TRUE(asked.empty());
  EXPECT_THAT(Say(), IsEmpty());
}

}  // namespace
}  // namespace mlxcomm::link::asked_frames_test
