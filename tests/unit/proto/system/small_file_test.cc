#include "proto/system/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::small_file_test {
namespace {

class SmallFileTest : public FolderTest {
 protected:
  std::size_t FilesThere() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  // A new file with that many bytes.
  FileDescriptor Opened(std::size_t bytes) const {
    EXPECT_TRUE(WriteWhole(folder_ + "/read", std::string(bytes, 'x'), Placing::kReplace));
    return OpenToRead(folder_ + "/read");
  }
};

TEST_F(SmallFileTest, IsReadWhole) {
  for (const std::size_t bytes : {0u, 1u, 16u * 1024, 16u * 1024 + 1, 100'000u}) {
    std::string text = "before";
    EXPECT_TRUE(ReadAtMost(Opened(bytes), 100'000, text));
    EXPECT_EQ(text, std::string(bytes, 'x'));
  }
}

// Why: every rank zeroed 16 MiB to read a host file of 100 bytes.
TEST_F(SmallFileTest, AllocatesMemoryForTheFilesSize) {
  std::string text;
  EXPECT_TRUE(ReadAtMost(Opened(2), 16u << 20, text));
  EXPECT_LT(text.capacity(), 64u * 1024);
}

TEST_F(SmallFileTest, ReportsATooLargeFile) {
  std::string text;
  EXPECT_FALSE(ReadAtMost(Opened(1u << 20), 10'000, text));
  EXPECT_EQ(errno, EFBIG);
  EXPECT_EQ(text.size(), 10'001u);
  EXPECT_EQ(ReadFileText(folder_ + "/read", 10'000).size(), 10'000u);
}

TEST_F(SmallFileTest, HasNoTextIfItIsMissingOrAFolder) {
  std::string text = "before";
  EXPECT_FALSE(ReadAtMost(OpenToRead("/nowhere/at/all"), 100, text));
  EXPECT_EQ(text, "");
  EXPECT_FALSE(ReadAtMost(OpenToRead(folder_), 100, text));
  EXPECT_EQ(errno, EISDIR);
}

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

TEST_F(SmallFileTest, LeavesNoTemporaryFileIfItCannotBePlaced) {
  std::filesystem::create_directory(folder_ + "/folder");
  EXPECT_FALSE(WriteWhole(folder_ + "/folder", "text", Placing::kReplace));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_FALSE(WriteWhole(folder_ + "/nowhere/file", "text", Placing::kReplace));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(FilesThere(), 1u);
}

}  // namespace
}  // namespace mlxcomm::small_file_test
