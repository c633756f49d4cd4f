#include "daemon/link/large_frames.h"

#include <gtest/gtest.h>

#include <string>

namespace mlxcomm::link::large_frames_test {
namespace {

const rail::RailPath kA{"en1", "en2"};
const rail::RailPath kB{"en3", "en4"};

// Why: the first cable may have been pulled just then.
TEST(LargeFramesTest, AreLostAfterTwoFailuresInARow) {
  LargeFrames large;
  EXPECT_FALSE(large.OnFailed(kA, 1));
  EXPECT_EQ(large.PathsText(), "");
  large.OnPassed(kA);
  EXPECT_FALSE(large.OnFailed(kA, 2));
  EXPECT_FALSE(large.OnFailed(kB, 3)) << "each path counts separately";
  EXPECT_TRUE(large.OnFailed(kA, 4));
  EXPECT_FALSE(large.OnFailed(kA, 5)) << "it was already known";
  EXPECT_EQ(large.PathsText(), "en1 - en2");
  large.OnLost(kB, 6);
  EXPECT_EQ(large.PathsText(), "en1 - en2, en3 - en4");
  large.OnPassed(kA);
  EXPECT_FALSE(large.AreLostOn(kA));
  EXPECT_TRUE(large.AreLostOn(kB));
}

TEST(LargeFramesTest, ReportWhatFailedSinceAGraceBegan) {
  LargeFrames large;
  large.OnLost(kA, 10);
  large.OnFailed(kB, 20);
  EXPECT_TRUE(large.AreLostSince(10));
  EXPECT_FALSE(large.AreLostSince(11)) << "the other path is uncertain";
  EXPECT_TRUE(large.HasFailedSince(kB, 20));
  EXPECT_FALSE(large.HasFailedSince(kB, 21));
  EXPECT_FALSE(large.HasFailedSince(kA, 11));
}

// Why: doctor would name a cable that lies in a drawer.
TEST(LargeFramesTest, AreForgottenOnPathsThatAreNoLongerTried) {
  LargeFrames large;
  large.OnLost(kA, 1);
  large.OnLost(kB, 2);
  large.OnInterfaceDown("en1");
  large.OnInterfaceDown("en4");
  EXPECT_EQ(large.PathsText(), "en3 - en4") << "the local ends count";
  large.ForgetOld(1 + LargeFrames::kForgetNs);
  EXPECT_TRUE(large.AreLostOn(kB));
  large.ForgetOld(2 + LargeFrames::kForgetNs);
  EXPECT_FALSE(large.AreLostOn(kB));
}

TEST(LargeFramesTest, AreKeptForALimitedNumberOfPaths) {
  LargeFrames large;
  for (std::uint64_t i = 0; i <= LargeFrames::kPathsMax; ++i) {
    large.OnLost({std::to_string(i), "x"}, i);
  }
  EXPECT_FALSE(large.AreLostOn({"0", "x"}));
  EXPECT_TRUE(large.AreLostOn({"1", "x"}));
}

}  // namespace
}  // namespace mlxcomm::link::large_frames_test
