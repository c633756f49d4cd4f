#include "client/ctl/service/service_files.h"

#include <gmock/gmock.h>

namespace mlxcomm::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ServiceFilesTest, FindsASettingButNotInCommentsOrLongerNames) {
  EXPECT_EQ(
      SettingIn("# drain_timeout_ms: 1\ndrain_timeout_ms: 60001  # long\n", "drain_timeout_ms"),
      "60001");
  EXPECT_EQ(SettingIn("key_file: \"/k\"\nlog { file: '/var/#1' }", "file"), "/var/#1");
  EXPECT_EQ(SettingIn("key_file: \"/k\"", "file"), "");
  EXPECT_EQ(SettingIn("socket_path: \"/a\"\nsocket_path: \"/b\"", "socket_path"), "/b");
  // A report must not show the key of an incomplete configuration.
  EXPECT_EQ(SettingIn("peers { unknown 7 key_file: \"/k\" # mine", "key_file"), "/k");
  EXPECT_EQ(SettingIn("", "file"), "");
  EXPECT_EQ(SettingIn("file", "file"), "");
  EXPECT_EQ(SettingIn("file: \"open", "file"), "");
}

TEST(ServiceFilesTest, WaitsForTheDrainTimeoutPlusTenSeconds) {
  EXPECT_EQ(EndsWithinS(""), 15);
  EXPECT_EQ(EndsWithinS("drain_timeout_ms: 0"), 10);
  EXPECT_EQ(EndsWithinS("drain_timeout_ms: 60001"), 71);
  EXPECT_EQ(EndsWithinS("drain_timeout_ms: 2147483647"), 2147484 + 10);
  EXPECT_EQ(EndsWithinS("drain_timeout_ms: many"), 15);
}

TEST(ServiceFilesTest, WritesTheTimeoutIntoUnitAndPlist) {
  EXPECT_THAT(DefinitionText(ServiceManager::kSystemd, 71), HasSubstr("\nTimeoutStopSec=71\n"));
  EXPECT_THAT(DefinitionText(ServiceManager::kLaunchd, 71), HasSubstr("<integer>71</integer>"));
}

// Why: launchd keeps standard error open, so that log cannot be rotated.
TEST(ServiceFilesTest, GivesMacosALogFileInItsFirstConfiguration) {
  const std::string printed = "log {\n  # file: \"/var/log/mlxcommd/mlxcommd.log\"\n}\n";
  EXPECT_EQ(SettingIn(FirstConfig(ServiceManager::kLaunchd, printed), "file"),
            "/var/log/mlxcommd/mlxcommd.log");
  EXPECT_EQ(SettingIn(FirstConfig(ServiceManager::kSystemd, printed), "file"), "");
}

TEST(ServiceFilesTest, RotatesLogsOnBothSystems) {
  EXPECT_THAT(std::string(RotationText(ServiceManager::kSystemd)),
              HasSubstr("/var/log/mlxcommd/*.log {"));
  EXPECT_THAT(std::string(RotationText(ServiceManager::kLaunchd)),
              HasSubstr("/var/log/mlxcommd/mlxcommd.log "));
}

}  // namespace
}  // namespace mlxcomm::ctl
