// Small programs stand in for Pythons with and without the package, and for programs that are not
// Pythons.
#include "client/ctl/doctor/python_package.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::ctl::python_package_test {
namespace {

class PythonPackageTest : public FolderTest {
 protected:
  // A python3 in a folder of its own: it runs `has` when it is asked for the package, `test` as the
  // self test.
  std::string Make(const std::string& name, const std::string& has, const std::string& test) {
    std::filesystem::create_directory(folder_ + "/" + name);
    return Write(name + "/python3",
                 "#!/bin/sh\ncase \"$2\" in *find_spec*) " + has + ";; *) " + test + ";; esac\n",
                 0755);
  }
  PythonFacts Ask(const std::vector<std::string>& pythons) {
    options_.pythons = pythons;
    return CollectPython(options_, unknown_);
  }

  PythonOptions options_;
  std::vector<std::string> unknown_;
};

TEST_F(PythonPackageTest, SearchesBesideThisProgramThenInThePath) {
  const std::string beside = Make("bin", "exit 0", "exit 0");
  const std::string other = Make("other", "exit 0", "exit 0");
  std::filesystem::create_directory(folder_ + "/none");
  const std::string path = folder_ + "/none:" + folder_ + "/other:" + folder_ + "/bin";
  EXPECT_EQ(FindPythons(folder_ + "/bin/mlxcommctl", path.c_str()),
            (std::vector<std::string>{beside, other}));
  EXPECT_EQ(FindPythons(folder_ + "/none/mlxcommctl", (folder_ + "/other").c_str()),
            std::vector<std::string>{other});
  EXPECT_TRUE(FindPythons(folder_ + "/none/mlxcommctl", nullptr).empty());
}

// Why: doctor runs anywhere, even as root, and a python3 there may belong to anyone.
TEST_F(PythonPackageTest, RunsNoPythonFromTheCurrentFolder) {
  Make("bin", "exit 0", "exit 0");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ + "/bin");
  EXPECT_TRUE(FindPythons("mlxcommctl", ":.:../bin:").empty());
  std::filesystem::current_path(before);
}

TEST_F(PythonPackageTest, TestsTheFirstThatHasThePackage) {
  const std::string without = Make("without", "exit 1", "echo shared");
  const std::string with = Make("with", "exit 0", "echo \"copied: over $MLXCOMM_SOCKET\"");
  options_.socket_path = "/s";
  const PythonFacts facts = Ask({folder_ + "/gone", "/", without, with});
  EXPECT_EQ(facts.program, with);
  EXPECT_EQ(facts.results, ResultsKind::kCopied);
  EXPECT_EQ(facts.message, "over /s");
  EXPECT_EQ(Ask({without}).results, ResultsKind::kNotTested);
  EXPECT_TRUE(unknown_.empty());
}

TEST_F(PythonPackageTest, EndsAPythonThatDoesNotAnswerAndReportsIt) {
  options_.looking_timeout_ns = 50'000'000;
  const std::string stuck = Make("stuck", "sleep 1000", "echo shared");
  EXPECT_EQ(Ask({stuck}).results, ResultsKind::kNotTested);
  EXPECT_EQ(unknown_, std::vector<std::string>{stuck + " did not end within 0 s"});
}

TEST_F(PythonPackageTest, EndsASelfTestThatHangs) {
  options_.testing_timeout_ns = 50'000'000;
  const std::string hangs = Make("hangs", "exit 0", "sleep 1000 & wait");
  const PythonFacts facts = Ask({hangs});
  EXPECT_EQ(facts.program, hangs);
  EXPECT_EQ(facts.results, ResultsKind::kTestFailed);
  EXPECT_EQ(facts.message, hangs + " did not end within 0 s");
}

TEST(ReadSelfTestTest, KnowsEachOutcome) {
  EXPECT_EQ(ReadSelfTest({0, "shared\n"}).results, ResultsKind::kShared);
  const PythonFacts declined = ReadSelfTest({0, "copied: MLX makes no buffer\n"});
  EXPECT_EQ(declined.results, ResultsKind::kCopied);
  EXPECT_EQ(declined.message, "MLX makes no buffer");
  EXPECT_EQ(ReadSelfTest({0, "copied: MLXCOMM_RESULTS=copy is set\n"}).results,
            ResultsKind::kCopiedAsAsked);
  const PythonFacts wrong = ReadSelfTest({1, "wrong: it reads other bytes\n"});
  EXPECT_EQ(wrong.results, ResultsKind::kWrong);
  EXPECT_EQ(wrong.message, "it reads other bytes");
}

// Why: output of MLX or of a user's module, before or after, is not the outcome.
TEST(ReadSelfTestTest, FindsTheOutcomeAmongOtherLines) {
  EXPECT_EQ(ReadSelfTest({0, "warning: shared\ncopied\nshared\r\nleaked: 1\n\n"}).results,
            ResultsKind::kShared);
}

TEST(ReadSelfTestTest, KeepsTheLastLinesOfAFailure) {
  EXPECT_EQ(ReadSelfTest({1, "Traceback\n  a\n  b\n\n  c\nImportError: another MLX\n"}).message,
            "ended with exit code 1\nb\nc\nImportError: another MLX");
  EXPECT_EQ(ReadSelfTest({0, ""}).message, "ended with exit code 0");
  EXPECT_EQ(ReadSelfTest({1, ""}).results, ResultsKind::kTestFailed);
  // Its output and its exit code disagree: it crashed on its way out, or the output is another's.
  const PythonFacts crashed = ReadSelfTest({128 + 11, "shared\n"});
  EXPECT_EQ(crashed.results, ResultsKind::kTestFailed);
  EXPECT_EQ(crashed.message, "ended by signal 11 (Segmentation fault)\nshared");
  EXPECT_EQ(ReadSelfTest({0, "wrong: x\n"}).results, ResultsKind::kTestFailed);
}

TEST(ReadSelfTestTest, CutsLongLinesAndEscapesControlCharacters) {
  const std::string noise(5000, 'x');
  const PythonFacts facts = ReadSelfTest({1, noise + "\n\x1b[2J\xff\n" + noise});
  EXPECT_EQ(facts.message, "ended with exit code 1\n" + noise.substr(0, 300) + " ...\n?[2J?\n" +
                               noise.substr(0, 300) + " ...");
  EXPECT_EQ(ReadSelfTest({0, "copied: \x1b]0;t\a" + noise + "\n"}).message,
            "?]0;t?" + noise.substr(0, 294) + " ...");
  EXPECT_EQ(ReadSelfTest({0, std::string(kOutputBytesMax, '\0')}).message.size(),
            std::string("ended with exit code 0\n").size() + 300 + 4);
}

}  // namespace
}  // namespace mlxcomm::ctl::python_package_test
