// What collect.h reads from files; the programs that it runs are macOS's.
#include "client/ctl/doctor/collect.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::ctl::collect_test {
namespace {

// Why: after an upgrade of Homebrew the service cannot start, and only the linker reports why;
// and root must not run files that a user may have written.
TEST(CollectTest, FindsLibrariesThatAreMissingOrWritable) {
  const TemporaryFolder made;
  const std::string& folder = made.path();
  ASSERT_EQ(::mkdir((folder + "/bin").c_str(), 0755), 0);
  const std::string library = folder + "/libgrpc.44.dylib";
  std::ofstream(library) << "x";
  ASSERT_EQ(::chmod(library.c_str(), 0664), 0);
  const LibraryTrouble trouble = FindLibraryTrouble(
      {"@rpath/libz.dylib", "@loader_path/../libgrpc.44.dylib", folder + "/libabsl.2508.dylib"},
      folder + "/bin");
  EXPECT_EQ(trouble.missing, (std::vector<std::string>{folder + "/libabsl.2508.dylib"}));
  EXPECT_EQ(trouble.of_users, (std::vector<std::string>{folder + "/bin/../libgrpc.44.dylib"}));
  EXPECT_EQ(::chmod(library.c_str(), 0644), 0);
  if (::geteuid() == 0) {  // Its own folder is 0700.
    EXPECT_TRUE(FindLibraryTrouble({library}, folder).of_users.empty());
    ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);  // Another user may replace it.
  }
  EXPECT_EQ(FindLibraryTrouble({library}, folder).of_users, std::vector<std::string>{library});
}

}  // namespace
}  // namespace mlxcomm::ctl::collect_test
