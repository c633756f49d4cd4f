#include "proto/key/key_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "tests/unit/seeds.h"
#include "tests/unit/temporary_folder.h"

namespace mlxcomm::key_file_test {
namespace {

using testing::HasSubstr;

class KeyFileTest : public FolderTest {
 protected:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Put(const std::string& text, mode_t mode = 0600) { return Write("put", text, mode); }
  static std::string WhyNot(const std::string& path) {
    return std::string(ReadKeyFile(path).status().message());
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat facts{};
    return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
  }
};

TEST_F(KeyFileTest, ReadsWhatItWrites) {
  const ClusterKeys one{ClusterKey::MakeRandom(), std::nullopt, ""};
  const ClusterKeys two{ClusterKey::MakeRandom(), ClusterKey::MakeRandom(), "studio 2"};
  for (const ClusterKeys& keys : {one, two}) {
    ASSERT_TRUE(WriteKeyFile(Path("key"), keys, Placing::kReplace).ok());
    const absl::StatusOr<ClusterKeys> read = ReadKeyFile(Path("key"));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == keys);
  }
}

// Sanitizers have their own heap.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !MLXCOMM_HAS_FEATURE(address_sanitizer) && !MLXCOMM_HAS_FEATURE(thread_sanitizer)
constexpr char kMask = 0x55;

// The number of pieces of the second half of `masked` in the heap (a free block's first bytes are
// the allocator's). The digits exist here only in masked form, so any that are found are not this
// test's own.
int TimesInHeap(const std::string& masked) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line) && line.find("[heap]") == std::string::npos) continue;
  if (!maps) return 0;
  const std::uint64_t begin = std::stoull(line, nullptr, 16);
  const std::uint64_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
  std::ifstream memory("/proc/self/mem", std::ios::binary);
  const std::string_view wanted = std::string_view(masked).substr(masked.size() / 2);
  const auto same = [](char in_heap, char digit) { return (in_heap ^ kMask) == digit; };
  // A copy in the heap could lie where the digits were. Pieces overlap, so that none is cut.
  static std::array<char, 65536> piece;
  int times = 0;
  for (std::uint64_t at = begin; at < end; at += piece.size() - wanted.size() + 1) {
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(at));
    memory.read(piece.data(),
                static_cast<std::streamsize>(std::min<std::uint64_t>(piece.size(), end - at)));
    auto* const last = piece.data() + memory.gcount();
    const auto* found = std::search(piece.data(), last, wanted.begin(), wanted.end(), same);
    times += found == last ? 0 : 1;
  }
  return times;
}

std::string MaskedDigits(const ClusterKey& key) {
  std::string masked;
  for (const std::uint8_t byte : key.bytes()) {
    for (const int digit : {byte >> 4, byte & 15}) {
      masked.push_back(static_cast<char>("0123456789abcdef"[digit] ^ kMask));
    }
  }
  return masked;
}

// Why: growing and temporary strings leave their text in freed memory, and so in core files.
TEST_F(KeyFileTest, LeavesNoKeyInFreedMemory) {
  const ClusterKeys keys{ClusterKey::MakeRandom(), ClusterKey::MakeRandom(), "studio 2"};
  const std::string current = MaskedDigits(keys.current);
  const std::string previous = MaskedDigits(*keys.previous);
  ASSERT_TRUE(WriteKeyFile(Path("key"), keys, Placing::kOnlyNew).ok());
  EXPECT_EQ(TimesInHeap(current) + TimesInHeap(previous), 0) << "after it was written";
  ASSERT_TRUE(ReadKeyFile(Path("key")).ok());
  EXPECT_EQ(TimesInHeap(current) + TimesInHeap(previous), 0) << "after it was read";
  // Checks that the search would find it.
  std::string plain = current;
  for (char& digit : plain) digit = static_cast<char>(digit ^ kMask);
  EXPECT_GE(TimesInHeap(current), 1) << plain.size();
}
#endif

// Why: a umask that lets others read, and missing folders, are the usual state of a machine.
TEST_F(KeyFileTest, IsPrivateFromTheFirstMoment) {
  const mode_t before = ::umask(0);
  const ClusterKeys keys{ClusterKey::MakeRandom(), std::nullopt, ""};
  const absl::Status written = WriteKeyFile(Path("new/deep/key"), keys, Placing::kOnlyNew);
  ::umask(before);
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(ModeOf(Path("new/deep/key")), 0600u);
  EXPECT_EQ(ModeOf(Path("new/deep")), 0700u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(Path("new/deep")), {}), 1);
}

TEST_F(KeyFileTest, DoesNotReplaceAnExistingKey) {
  const ClusterKeys keys{ClusterKey::MakeRandom(), std::nullopt, ""};
  ASSERT_TRUE(WriteKeyFile(Path("key"), keys, Placing::kOnlyNew).ok());
  const absl::Status again =
      WriteKeyFile(Path("key"), {ClusterKey::MakeRandom(), std::nullopt, ""}, Placing::kOnlyNew);
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_TRUE(*ReadKeyFile(Path("key")) == keys);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(KeyFileTest, RefusesAFileThatOthersMayAccessWithTheFix) {
  const std::string hex(64, 'a');
  for (const mode_t mode : std::initializer_list<mode_t>{0640, 0604, 0620, 0644, 0601}) {
    const std::string path = Put(hex, mode);
    EXPECT_THAT(WhyNot(path), HasSubstr("fix it with: chmod 600 " + path));
  }
  EXPECT_TRUE(ReadKeyFile(Put(hex, 0600)).ok());
  EXPECT_TRUE(ReadKeyFile(Put(hex, 0400)).ok());
}

// How: a shell runs the command unchanged.
TEST_F(KeyFileTest, TheCommandWorksForAnyPath) {
  const std::string path = Path("a key's $(place)");
  std::ofstream(path) << std::string(64, 'a');
  ::chmod(path.c_str(), 0644);
  const std::string why = WhyNot(path);
  const std::size_t command = why.find("chmod 600 ");
  ASSERT_NE(command, std::string::npos) << why;
  // NOLINTNEXTLINE(bugprone-command-processor): the message says what to type.
  // NOLINTNEXTLINE(bugprone-command-processor): the command is the test's own.
  ASSERT_EQ(std::system(why.substr(command).c_str()), 0);
  EXPECT_TRUE(ReadKeyFile(path).ok());
}

TEST_F(KeyFileTest, RefusesAnotherUsersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string path = Put(std::string(64, 'a'));
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_THAT(WhyNot(path), HasSubstr("belongs to another user"));
  EXPECT_THAT(WhyNot(path), HasSubstr("sudo chown 0 " + path));
}

TEST_F(KeyFileTest, RefusesAFileWithoutAKey) {
  const std::string hex(64, 'a'), other(64, 'b'), third(64, 'c');
  EXPECT_THAT(WhyNot(Put("")), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(WhyNot(Put(hex.substr(1))), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(WhyNot(Put(hex + "\n" + other + "\n" + third)), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(WhyNot(Put(hex + "\ncluster lab")), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(WhyNot(Put("cluster a\x01\n" + hex)), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(WhyNot(Put(std::string(5000, ' '))), HasSubstr("more than"));
  EXPECT_THAT(WhyNot(folder_), HasSubstr("regular file"));
  EXPECT_TRUE(absl::IsNotFound(ReadKeyFile(Path("none")).status()));
  EXPECT_THAT(WhyNot(Path("none")), HasSubstr("mlxcommctl cluster create"));
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(WhyNot(Path("pipe")), HasSubstr("regular file"));
}

TEST_F(KeyFileTest, AcceptsOpensslsKeys) {
  const absl::StatusOr<ClusterKeys> keys = ReadKeyFile(Put(std::string(64, 'A') + "\r\n\n"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->current.bytes()[0], 0xaa);
  EXPECT_FALSE(keys->previous.has_value());
}

TEST(KeyFilePlaceTest, IsInEtcForRootAndInTheHomeOfOthers) {
  EXPECT_EQ(KeyFilePlace(/*is_root=*/true, "/c", "/h"), "/etc/mlxcommd/key");
  EXPECT_EQ(KeyFilePlace(false, "/c", "/h"), "/c/mlxcommd/key");
  for (const char* const none : {static_cast<const char*>(nullptr), "", "relative"}) {
    EXPECT_EQ(KeyFilePlace(false, none, "/h"), "/h/.config/mlxcommd/key");
    EXPECT_EQ(KeyFilePlace(false, none, none), "");
  }
}

TEST_F(KeyFileTest, TreatsTheSameKeyTwiceAsOne) {
  const std::string hex(64, 'a');
  EXPECT_FALSE(ReadKeyFile(Put(hex + "\n" + hex + "\n"))->previous.has_value());
}

}  // namespace
}  // namespace mlxcomm::key_file_test
