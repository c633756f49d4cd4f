#include "client/ctl/service/macos_programs.h"

#include <gmock/gmock.h>

namespace mlxcomm::ctl {
namespace {

using ::testing::ElementsAre;

// Why: root ran the first program in the PATH of sudo's caller.
TEST(MacosProgramsTest, AreCalledByAbsolutePathOnlyOnMacos) {
  EXPECT_THAT(OfMacos({"otool", "-L", "otool"}, true),
              ElementsAre("/usr/bin/otool", "-L", "otool"));
  EXPECT_THAT(OfMacos({"install_name_tool"}, true), ElementsAre("/usr/bin/install_name_tool"));
  EXPECT_THAT(OfMacos({"codesign"}, true), ElementsAre("/usr/bin/codesign"));
  EXPECT_THAT(OfMacos({"launchctl", "print"}, true), ElementsAre("/bin/launchctl", "print"));
  EXPECT_THAT(OfMacos({"/x/mlxcommd"}, true), ElementsAre("/x/mlxcommd"));
  EXPECT_THAT(OfMacos({"launchctl", "print"}, false), ElementsAre("launchctl", "print"));
}

// Why: a loaded service that launchd restarted every ten seconds was reported as running.
TEST(MacosProgramsTest, ReportWhetherAServiceRuns) {
  EXPECT_TRUE(RunsByLaunchd("system/x = {\n\tactive count = 1\n\tstate = running\n}\n"));
  EXPECT_FALSE(
      RunsByLaunchd("system/x = {\n\tstate = spawn scheduled\n\tlast = {\n\t\tstate = running\n"));
  EXPECT_FALSE(RunsByLaunchd("system/x = {\n\tjob state = running\n}\n"));
  EXPECT_FALSE(RunsByLaunchd(""));
}

TEST(MacosProgramsTest, ReportWhetherAServiceIsDisabled) {
  const auto is_disabled = [](const char* value) {
    return IsDisabledByLaunchd(
        std::string("\t\t\"a.b.more\" => disabled\n\t\t\"a.b\" => ") + value + "\n", "a.b");
  };
  EXPECT_TRUE(is_disabled("disabled"));
  EXPECT_TRUE(is_disabled("true"));
  EXPECT_FALSE(is_disabled("enabled"));
  EXPECT_FALSE(is_disabled("false"));
  EXPECT_FALSE(IsDisabledByLaunchd("", "a.b"));
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ObjectFilesTest, ListsLibrariesWithoutTheSystemsOwn) {
  EXPECT_THAT(
      LibrariesIn(
          "/x/mlxcommd:\n"
          "\t/opt/homebrew/opt/grpc/lib/libgrpc.44.dylib (compatibility version 44.0.0, current "
          "version 44.0.0)\n"
          "\t@rpath/libfmt.12.dylib (compatibility version 12.0.0, current version 12.1.0)\n"
          "\t/usr/lib/libSystem.B.dylib (compatibility version 1.0.0, current version 1.0.0)\n"
          "\t/System/Library/Frameworks/X (compatibility version 1.0.0, current version 1.0.0)\n"),
      ElementsAre("/opt/homebrew/opt/grpc/lib/libgrpc.44.dylib", "@rpath/libfmt.12.dylib"));
  EXPECT_THAT(LibrariesIn(""), IsEmpty());
}

TEST(ObjectFilesTest, ListsRunPaths) {
  EXPECT_THAT(RunPathsIn("          cmd LC_RPATH\n      cmdsize 48\n"
                         "         path /opt/homebrew/lib (offset 12)\n"
                         "         name /x.dylib (offset 24)\n"),
              ElementsAre("/opt/homebrew/lib"));
}

TEST(ObjectFilesTest, FindsTheFileThatANameMeans) {
  const std::set<std::string> files{"/own/liba.dylib", "/lib/libb.dylib", "/own/../up/libc.dylib"};
  const auto is_file = [&files](const std::string& path) { return files.contains(path); };
  const std::vector<std::string> run_paths{"@loader_path/../up", "/lib"};
  const auto found = [&](const char* named) {
    return FileNamed(named, "/own", run_paths, is_file);
  };
  EXPECT_EQ(found("@rpath/liba.dylib"), "/own/liba.dylib");
  EXPECT_EQ(found("@rpath/libb.dylib"), "/lib/libb.dylib");
  EXPECT_EQ(found("@rpath/libc.dylib"), "/own/../up/libc.dylib");
  EXPECT_EQ(found("@loader_path/liba.dylib"), "/own/liba.dylib");
  EXPECT_EQ(found("/lib/libb.dylib"), "/lib/libb.dylib");
  EXPECT_EQ(found("@rpath/libd.dylib"), "");
  EXPECT_EQ(found("/nowhere/libb.dylib"), "");
}

}  // namespace
}  // namespace mlxcomm::ctl
