// Files of others: up to a limit, without memory for what is not there.
#include "proto/types/read_at_most.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace mlxcomm {
namespace {

TEST(ReadAtMostTest, ReadsAllThatIsThere) {
  for (const std::size_t bytes : {0u, 1u, 16u * 1024, 16u * 1024 + 1, 100'000u}) {
    std::istringstream stream(std::string(bytes, 'x'));
    std::string text = "before";
    EXPECT_TRUE(ReadAtMost(stream, 100'000, text));
    EXPECT_EQ(text, std::string(bytes, 'x'));
  }
}

// Why: 16 MiB were set to zero in every rank to read a host file of 100 bytes.
TEST(ReadAtMostTest, TakesMemoryForWhatThereIs) {
  std::istringstream stream("[]");
  std::string text;
  EXPECT_TRUE(ReadAtMost(stream, 16u << 20, text));
  EXPECT_LT(text.capacity(), 64u * 1024);
}

TEST(ReadAtMostTest, TellsMoreThanIsWantedAndStopsThere) {
  std::istringstream stream(std::string(1u << 20, 'x'));
  std::string text;
  EXPECT_FALSE(ReadAtMost(stream, 10'000, text));
  EXPECT_GT(text.size(), 10'000u);
  EXPECT_LT(text.size(), 10'000u + 32 * 1024);
}

TEST(ReadAtMostTest, AFileThatIsNotThereHasNoText) {
  std::ifstream file("/nowhere/at/all", std::ios::binary);
  std::string text = "before";
  ReadAtMost(file, 100, text);
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace mlxcomm
