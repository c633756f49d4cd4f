#include "proto/system/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace mlxcomm::small_file_test {
namespace {

class SmallFileTest : public testing::Test {
 protected:
  SmallFileTest() {
    std::string made = (std::filesystem::temp_directory_path() / "small-XXXXXX").string();
    folder_ = ::mkdtemp(made.data());
  }
  ~SmallFileTest() override { std::filesystem::remove_all(folder_); }
  std::size_t FilesThere() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string folder_;
};

TEST_F(SmallFileTest, IsWrittenWholeOrNotAtAll) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(WriteWhole(path, "one", Placing::kOnlyNew));
  EXPECT_FALSE(WriteWhole(path, "two", Placing::kOnlyNew));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(ReadFileText(path), "one");
  ASSERT_TRUE(WriteWhole(path, "three", Placing::kReplace, 0644));
  EXPECT_EQ(ReadFileText(path), "three");
  struct stat facts{};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0644u);
  EXPECT_EQ(FilesThere(), 1u);
}

TEST_F(SmallFileTest, LeavesNothingWhereItCannotBePutIntoPlace) {
  std::filesystem::create_directory(folder_ + "/folder");
  EXPECT_FALSE(WriteWhole(folder_ + "/folder", "text", Placing::kReplace));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_FALSE(WriteWhole(folder_ + "/nowhere/file", "text", Placing::kReplace));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(FilesThere(), 1u);
}

}  // namespace
}  // namespace mlxcomm::small_file_test
