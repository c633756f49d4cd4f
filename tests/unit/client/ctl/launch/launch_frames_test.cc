// Frames between launch and the mlxcommctl on another host.
#include "client/ctl/launch/launch_frames.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include <gmock/gmock.h>

namespace mlxcomm::ctl::launch_frames_test {
namespace {

// A writer's output, through a pipe.
std::string Written(FrameWriter& writer) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  EXPECT_TRUE(writer.WriteTo(ends[1]));
  std::array<char, 4096> bytes;
  const ssize_t got = ::read(ends[0], bytes.data(), bytes.size());
  for (const int end : ends) ::close(end);
  return {bytes.data(), static_cast<std::size_t>(got)};
}

v1::LaunchFrame Ended(unsigned rank) {
  v1::LaunchFrame frame;
  frame.mutable_ended()->set_rank(rank);
  return frame;
}

// Why: bytes come in any pieces, and behind the output of the user's shell.
TEST(LaunchFramesTest, FollowOutputOfTheShellInChunksOfAnySize) {
  FrameWriter writer;
  writer.Begin();
  writer.Add(Ended(3));
  writer.Add(Ended(4));
  const std::string all = "welcome\n\nno end" + Written(writer);
  FrameReader reader(/*noise_first=*/true);
  std::vector<std::string> noise;
  std::vector<unsigned> ranks;
  for (const char byte : all) {
    reader.Add({&byte, 1});
    for (std::string line; reader.TakeNoise(line);) noise.push_back(line);
    for (v1::LaunchFrame frame; reader.Take(frame);) ranks.push_back(frame.ended().rank());
  }
  EXPECT_THAT(noise, testing::ElementsAre("welcome", "", "no end"));
  EXPECT_THAT(ranks, testing::ElementsAre(3, 4));
  EXPECT_EQ(reader.error(), "");
}

TEST(LaunchFramesTest, StopAtAnInvalidFrame) {
  v1::LaunchFrame frame;
  FrameReader long_one(/*noise_first=*/false);
  long_one.Add(std::string("\x7f\xff\xff\xff", 4));
  EXPECT_FALSE(long_one.Take(frame));
  EXPECT_NE(long_one.error(), "");
  FrameReader garbage(/*noise_first=*/false);
  garbage.Add(std::string("\0\0\0\4\xff\xff\xff\xff", 8));
  EXPECT_FALSE(garbage.Take(frame));
  EXPECT_NE(garbage.error(), "");
  FrameReader noise(/*noise_first=*/true);
  noise.Add(std::string(1 << 20, 'x'));
  std::string line;
  EXPECT_FALSE(noise.TakeNoise(line));
  EXPECT_NE(noise.error(), "");
}

// Why: a writer that waits would not notice signals.
TEST(LaunchFramesTest, DoNotWaitForAReaderAndNoticeItsEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  FrameWriter writer;
  v1::LaunchFrame frame;
  frame.mutable_output()->set_data(std::string(1 << 19, 'x'));
  writer.Add(frame);
  EXPECT_TRUE(writer.WriteTo(ends[1]));
  EXPECT_GT(writer.pending(), 0u);
  ::signal(SIGPIPE, SIG_IGN);
  ::close(ends[0]);
  EXPECT_FALSE(writer.WriteTo(ends[1]));
  ::close(ends[1]);
}

}  // namespace
}  // namespace mlxcomm::ctl::launch_frames_test
