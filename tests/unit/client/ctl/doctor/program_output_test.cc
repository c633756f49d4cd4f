#include "client/ctl/doctor/program_output.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace mlxcomm::ctl::program_output_test {
namespace {

TEST(ProgramOutputTest, ReadsWhatAProgramSaysAndHowItEnds) {
  const auto said = RunProgram({"sh", "-c", "echo one; echo two >&2; exit 3"});
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->text, "one\n");
  EXPECT_EQ(said->exit_code, 3);
  ProgramOptions options;
  options.with_errors = true;
  EXPECT_EQ(RunProgram({"sh", "-c", "echo one; echo two >&2"}, options)->text, "one\ntwo\n");
  EXPECT_EQ(RunProgram({"sh", "-c", "kill -9 $$"})->exit_code, 128 + 9);
}

TEST(ProgramOutputTest, SaysThatThereIsNoSuchProgram) {
  const auto said = RunProgram({"no-such-program-anywhere"});
  EXPECT_TRUE(absl::IsNotFound(said.status())) << said.status();
}

// Why: system_profiler has been seen to hang. How: a program that closes its output and goes
// on, and one that keeps it open by a child of its own.
TEST(ProgramOutputTest, EndsWhatDoesNotEndInTimeWithItsChildren) {
  ProgramOptions options;
  options.timeout_ns = 50'000'000;
  for (const char* script : {"exec >&-; exec sleep 1000", "sleep 1000 & wait"}) {
    const auto said = RunProgram({"sh", "-c", script}, options);
    EXPECT_TRUE(absl::IsDeadlineExceeded(said.status())) << said.status();
  }
}

TEST(ProgramOutputTest, KeepsABoundedOutputAndGivesNoInput) {
  const auto said = RunProgram({"sh", "-c", "head -c 6000000 /dev/zero; cat"});
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->text.size(), kOutputBytesMax);
}

TEST(ProgramOutputTest, SpeaksTheLanguageThatIsParsed) {
  ::setenv("LC_MESSAGES", "de_DE.UTF-8", 1);
  EXPECT_EQ(RunProgram({"sh", "-c", "echo $LC_ALL$LC_MESSAGES"})->text, "C\n");
}

TEST(ProgramOutputTest, GivesVariablesInPlaceOfItsOwn) {
  ::setenv("MLXCOMM_TEST_VARIABLE", "own", 1);
  ::setenv("MLXCOMM_TEST_VARIABLE_2", "kept", 1);
  ProgramOptions options;
  options.environment = {{"MLXCOMM_TEST_VARIABLE", "given"}};
  const auto said = RunProgram({"sh", "-c", "env | grep MLXCOMM_TEST_VARIABLE | sort"}, options);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->text, "MLXCOMM_TEST_VARIABLE=given\nMLXCOMM_TEST_VARIABLE_2=kept\n");
}

}  // namespace
}  // namespace mlxcomm::ctl::program_output_test
