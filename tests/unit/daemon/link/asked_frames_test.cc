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
  // The frames that an acknowledgement requests, `each` of them per frame.
  std::vector<std::uint64_t> Acknowledge(std::size_t each = 2) {
    std::vector<std::uint64_t> requested;
    asked.Begin([this](std::uint64_t sequence) { return come.contains(sequence); });
    do {
      for (std::size_t i = 0; i < each; ++i) {
        if (const std::optional<std::uint64_t> next = asked.Next(); next)
          requested.push_back(*next);
      }
    } while (asked.NextRound());
    asked.End();
    return requested;
  }
  void Want(std::initializer_list<std::uint64_t> all) {
    for (const std::uint64_t sequence : all) asked.Want(sequence);
  }

  AskedFrames asked;
  std::set<std::uint64_t> come;
};

// Why: the peer sends a copy for each request.
TEST_F(AskedFramesTest, AreRequestedOnce) {
  Want({7, 5, 9});
  EXPECT_THAT(Acknowledge(), ElementsAre(7, 5, 9));
  EXPECT_THAT(Acknowledge(), IsEmpty());
  Want({8});
  EXPECT_THAT(Acknowledge(), ElementsAre(8));
  EXPECT_FALSE(asked.empty());
  come = {5, 7, 8, 9};
  EXPECT_THAT(Acknowledge(), IsEmpty());
  EXPECT_TRUE(asked.empty());
}

TEST_F(AskedFramesTest, AreNotRequestedOnceTheyHaveArrived) {
  Want({5, 6, 7});
  come = {6};
  EXPECT_THAT(Acknowledge(), ElementsAre(5, 7));
}

// Why: the copy had a wrong sum as well.
TEST_F(AskedFramesTest, AreRequestedAgainWhenWantedAgain) {
  Want({5, 6});
  EXPECT_THAT(Acknowledge(), ElementsAre(5, 6));
  Want({5});
  EXPECT_THAT(Acknowledge(), ElementsAre(5));
  EXPECT_THAT(Acknowledge(), IsEmpty());
}

// Why: the acknowledgement with the request may have been lost, with or without its rail.
TEST_F(AskedFramesTest, AreRequestedAgainWhenTheRequestMayBeLost) {
  Want({5, 6, 7});
  Acknowledge();
  asked.OnRailGone();
  EXPECT_THAT(Acknowledge(), ElementsAre(5, 6, 7));
  asked.AskAgain();
  EXPECT_THAT(Acknowledge(), ElementsAre(5, 6)) << "as many as fit into one";
  EXPECT_THAT(Acknowledge(), IsEmpty());
  asked.AskAgain();
  Want({8});
  EXPECT_THAT(Acknowledge(), ElementsAre(5, 6, 8));
}

TEST_F(AskedFramesTest, AreForgottenWithTheSession) {
  Want({5});
  asked.AskAgain();
  asked.Clear();
  EXPECT_TRUE(asked.empty());
  EXPECT_THAT(Acknowledge(), IsEmpty());
}

}  // namespace
}  // namespace mlxcomm::link::asked_frames_test
