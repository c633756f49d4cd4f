#include "daemon/process/options.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace mlxcomm::options_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::optional<int> Parse(std::vector<std::string> words, Options& options) {
  words.insert(words.begin(), "mlxcommd");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return ParseOptions(static_cast<int>(arguments.size()), arguments.data(), options);
}

TEST(OptionsTest, AreEmptyWithoutArguments) {
  Options options;
  EXPECT_EQ(Parse({}, options), std::nullopt);
  EXPECT_EQ(options.config_file + options.socket_path + options.log_level, "");
  EXPECT_FALSE(options.is_private || options.check_config);
}

TEST(OptionsTest, AcceptEveryOption) {
  Options options;
  EXPECT_EQ(Parse({"--config", "c", "--socket", "/s", "--log-level", "debug", "--private",
                   "--check-config"},
                  options),
            std::nullopt);
  EXPECT_EQ(options.config_file, "c");
  EXPECT_EQ(options.socket_path, "/s");
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_TRUE(options.is_private && options.check_config);
}

// Why: an empty variable of a script meant the default socket, and a relative path another file in
// each working directory. The configuration's path is refused with the same message.
TEST(OptionsTest, RefuseASocketPathThatTheConfigurationMayNotHave) {
  for (const auto& [path, expected] :
       {std::pair<std::string, std::string>("", "expected a path that begins with /, got \"\""),
        {"here.sock", "expected a path that begins with /, got \"here.sock\""},
        {"/" + std::string(120, 's'), "expected at most "}}) {
    Options options;
    testing::internal::CaptureStderr();
    EXPECT_EQ(Parse({"--socket", path, "--check-config"}, options),
              static_cast<int>(ExitCode::kUsage));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--socket: " + expected));
  }
}

TEST(OptionsTest, TakeSchedulingFromTheArgumentsOrTheEnvironment) {
  Options none;
  EXPECT_EQ(Parse({}, none), std::nullopt);
  EXPECT_EQ(none.scheduling, std::nullopt);
  ASSERT_EQ(::setenv("MLXCOMM_SCHEDULING", "many_cores", 1), 0);
  Options named;
  EXPECT_EQ(Parse({}, named), std::nullopt);
  EXPECT_EQ(named.scheduling, queue::Scheduling::kManyCores);
  EXPECT_EQ(Parse({"--scheduling", "few_cores"}, named), std::nullopt);
  EXPECT_EQ(named.scheduling, queue::Scheduling::kFewCores);
  EXPECT_EQ(Parse({"--scheduling", "auto"}, named), std::nullopt);
  EXPECT_EQ(named.scheduling, queue::Scheduling::kAuto);
  // Why: with a misspelt name one would measure, or test, the wrong side.
  ASSERT_EQ(::setenv("MLXCOMM_SCHEDULING", "all_cores", 1), 0);
  EXPECT_EQ(Parse({}, named), static_cast<int>(ExitCode::kUsage));
  ::unsetenv("MLXCOMM_SCHEDULING");
  EXPECT_EQ(Parse({"--scheduling", "all_cores"}, named), static_cast<int>(ExitCode::kUsage));
}

// Why: launchd restarts programs that end with a code other than 0, and a wrong configuration stays
// wrong.
TEST(OptionsTest, UnderLaunchdExitWithZeroIfARestartWouldNotHelp) {
  const absl::Status error = absl::UnknownError("printed");
  Options options;
  EXPECT_EQ(ExitWith(options, error, ExitCode::kUsage), 2);
  EXPECT_EQ(ExitWith(options, error, ExitCode::kDrain), 3);
  EXPECT_EQ(Parse({"--launchd"}, options), std::nullopt);
  EXPECT_EQ(ExitWith(options, error, ExitCode::kUsage), 0);
  EXPECT_EQ(ExitWith(options, error, ExitCode::kDrain), 0);
  EXPECT_EQ(ExitWith(options, error, ExitCode::kStartup), 1);
}

TEST(OptionsTest, EndTheProcessAfterHelpAndErrors) {
  const int usage = static_cast<int>(ExitCode::kUsage);
  Options options;
  EXPECT_EQ(Parse({"--help"}, options), 0);
  EXPECT_EQ(Parse({"--version"}, options), 0);
  EXPECT_EQ(Parse({"--no-such-thing"}, options), usage);
  EXPECT_EQ(Parse({"--config"}, options), usage);
  EXPECT_EQ(Parse({"--log-level", "loud"}, options), usage);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse({"start"}, options), usage);
  EXPECT_EQ(Parse({"--confg", "x"}, options), usage);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(StartsWith("mlxcommd: unknown word \"start\": mlxcommd --config FILE runs"),
                    HasSubstr("mlxcommd: unknown option --confg; did you mean \"--config\"?")));
}

}  // namespace
}  // namespace mlxcomm::options_test
