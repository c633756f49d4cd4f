#include "client/ctl/service/macos_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::ctl {
namespace {

using ::testing::ElementsAre;

// Why: root ran whatever lay first in the PATH of the user who had called sudo.
TEST(MacosProgramsTest, AreCalledByTheirOwnPlaceOnMacosAlone) {
  EXPECT_THAT(OfMacos({"otool", "-L", "otool"}, true),
              ElementsAre("/usr/bin/otool", "-L", "otool"));
  EXPECT_THAT(OfMacos({"install_name_tool"}, true), ElementsAre("/usr/bin/install_name_tool"));
  EXPECT_THAT(OfMacos({"codesign"}, true), ElementsAre("/usr/bin/codesign"));
  EXPECT_THAT(OfMacos({"launchctl", "print"}, true), ElementsAre("/bin/launchctl", "print"));
  EXPECT_THAT(OfMacos({"/x/mlxcommd"}, true), ElementsAre("/x/mlxcommd"));
  EXPECT_THAT(OfMacos({"launchctl", "print"}, false), ElementsAre("launchctl", "print"));
}

// Why: one that launchd had loaded, and started again every ten seconds, was said to run.
TEST(MacosProgramsTest, SayWhetherAServiceRuns) {
  EXPECT_TRUE(RunsByLaunchd("system/x = {\n\tactive count = 1\n\tstate = running\n}\n"));
  EXPECT_FALSE(
      RunsByLaunchd("system/x = {\n\tstate = spawn scheduled\n\tlast = {\n\t\tstate = running\n"));
  EXPECT_FALSE(RunsByLaunchd("system/x = {\n\tjob state = running\n}\n"));
  EXPECT_FALSE(RunsByLaunchd(""));
}

TEST(MacosProgramsTest, SayWhetherAServiceIsDisabled) {
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

}  // namespace
}  // namespace mlxcomm::ctl
