#include "proto/system/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace mlxcomm::program_test {
namespace {

TEST(ProgramTest, ReadsAProgramsOutputAndExitCode) {
  const auto said = RunProgram({"sh", "-c", "echo one; echo two >&2; exit 3"});
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->text, "one\n");
  EXPECT_EQ(said->exit_code, 3);
  ProgramOptions options;
  options.with_errors = true;
  EXPECT_EQ(RunProgram({"sh", "-c", "echo one; echo two >&2"}, options)->text, "one\ntwo\n");
  EXPECT_EQ(RunProgram({"sh", "-c", "kill -9 $$"})->exit_code, 128 + 9);
}

// Why: connections that mlxcommctl web has accepted are not close-on-exec, and programs of doctor
// held them open.
TEST(ProgramTest, PassesOnlyGivenDescriptors) {
  const int kept = ::fcntl(STDERR_FILENO, F_DUPFD, 50);
  ASSERT_GE(kept, 50);
  const auto said = RunProgram({"ls", "/dev/fd"});
  ::close(kept);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_TRUE(said->text.starts_with("0\n1\n2\n")) << said->text;
  EXPECT_EQ(said->text.find(std::to_string(kept)), std::string::npos) << said->text;
}

TEST(ProgramTest, ReportsAMissingProgram) {
  const auto said = RunProgram({"no-such-program-anywhere"});
  EXPECT_TRUE(absl::IsNotFound(said.status())) << said.status();
}

// Why: system_profiler has been seen to hang.
// How: a program that closes its output and continues, and one whose child keeps the output open.
TEST(ProgramTest, KillsALateProgramWithItsChildren) {
  ProgramOptions options;
  options.timeout_ns = 50'000'000;
  for (const char* script : {"exec >&-; exec sleep 1000", "sleep 1000 & wait"}) {
    const auto said = RunProgram({"sh", "-c", script}, options);
    EXPECT_TRUE(absl::IsDeadlineExceeded(said.status())) << said.status();
  }
}

// Why: a shared ssh connection stays in the background, with its output open.
TEST(ProgramTest, WaitsOnlyForTheProgramIfRequested) {
  ProgramOptions options;
  options.until_exit = true;
  const auto said = RunProgram(
      {"sh", "-c", "sleep 1000 & head -c 200000 /dev/zero | tr '\\0' x; echo $!; exit 3"}, options);
  ASSERT_TRUE(said.ok()) << said.status();
  const std::size_t end = said->text.find_last_of('x');
  EXPECT_EQ(end + 1, 200'000u);
  EXPECT_EQ(said->exit_code, 3);
  EXPECT_EQ(::kill(std::stoi(said->text.substr(end + 1)), SIGKILL), 0);  // It was still running.
  options.timeout_ns = 50'000'000;
  for (const char* script : {"exec >&-; exec sleep 1000", "sleep 1000 & wait"}) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(RunProgram({"sh", "-c", script}, options).status()));
  }
}

TEST(ProgramTest, LimitsTheOutputAndGivesNoInput) {
  const auto said = RunProgram({"sh", "-c", "head -c 6000000 /dev/zero; cat"});
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->text.size(), kOutputBytesMax);
}

TEST(ProgramTest, UsesTheCLocale) {
  ::setenv("LC_MESSAGES", "de_DE.UTF-8", 1);
  EXPECT_EQ(RunProgram({"sh", "-c", "echo $LC_ALL$LC_MESSAGES"})->text, "C\n");
}

TEST(ProgramTest, ReplacesVariables) {
  ::setenv("MLXCOMM_TEST_VARIABLE", "own", 1);
  ::setenv("MLXCOMM_TEST_VARIABLE_2", "kept", 1);
  ProgramOptions options;
  options.environment = {{"MLXCOMM_TEST_VARIABLE", "given"}};
  const auto said = RunProgram({"sh", "-c", "env | grep MLXCOMM_TEST_VARIABLE | sort"}, options);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->text, "MLXCOMM_TEST_VARIABLE=given\nMLXCOMM_TEST_VARIABLE_2=kept\n");
}

}  // namespace
}  // namespace mlxcomm::program_test
