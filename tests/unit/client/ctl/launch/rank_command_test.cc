#include "client/ctl/launch/rank_command.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::ctl::rank_command_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

// A folder with train.py, run.py (may be executed), data, and a folder of programs that is all of
// PATH.
class RankCommandTest : public testing::Test {
 protected:
  RankCommandTest() {
    ::mkdir((folder() + "/bin").c_str(), 0700);
    Add("train.py", 0600);
    Add("run.py", 0700);
    Add("data", 0600);
    Add("bin/python", 0700);
    Add("bin/python3", 0700);
  }
  std::string folder() const { return folder_.path(); }
  void Add(const std::string& name, mode_t mode) {
    std::ofstream(folder() + "/" + name) << "\n";
    ::chmod((folder() + "/" + name).c_str(), mode);
  }
  RankCommand Of(Words words) const {
    return {.command = std::move(words),
            .environment = {{"PATH", folder() + "/bin"}},
            .directory = folder()};
  }
  std::string Why(Words words) const { return WhyNotRun(Of(std::move(words))); }

  TemporaryFolder folder_;
};

TEST_F(RankCommandTest, FindsTheScriptAfterPythonsOptions) {
  EXPECT_EQ(ScriptOf({"python", "train.py"}), "train.py");
  EXPECT_EQ(ScriptOf({"/opt/bin/python3.12", "-u", "-X", "dev", "a/train.py", "-m"}), "a/train.py");
  EXPECT_EQ(ScriptOf({"./train.py", "x"}), "./train.py");
  EXPECT_EQ(ScriptOf({"python", "-uB", "--check-hash-based-pycs", "default", "-Wignore", "x.py"}),
            "x.py");
  EXPECT_EQ(ScriptOf({"python", "-uW", "ignore", "x.py"}), "x.py");
  for (const Words& words : {Words{"python", "-uc", "print(1)"},
                             {"python", "-um", "this"},
                             {"python", "-Ic", "x.py"},
                             {"python", "-m", "train"},
                             {"python", "-c", "x.py"},
                             {"python"},
                             {"python", "-"},
                             {"sh", "train.py"},
                             {"pythonic", "train.py"},
                             {}}) {
    EXPECT_EQ(ScriptOf(words), "") << testing::PrintToString(words);
  }
}

TEST_F(RankCommandTest, RunsAScriptWithPythonUnlessItIsExecutable) {
  EXPECT_THAT(WithPython({"train.py", "-x"}, "", folder()),
              ElementsAre("python3", "train.py", "-x"));
  EXPECT_THAT(WithPython({"run.py"}, "", folder()), ElementsAre("python3", "run.py"));
  EXPECT_THAT(WithPython({"./run.py"}, "", folder()), ElementsAre("./run.py"));
  EXPECT_THAT(WithPython({"none.py"}, "", folder()), ElementsAre("none.py"));
  EXPECT_THAT(WithPython({"-m", "train"}, "/opt/python", folder()),
              ElementsAre("/opt/python", "-m", "train"));
}

TEST_F(RankCommandTest, NamesAJobAfterItsScript) {
  EXPECT_EQ(JobNameOf({"python", "-u", "src/train.py", "--lr", "1"}), "train");
  EXPECT_EQ(JobNameOf({"python3", "-m", "mlx_lm.lora"}), "mlx_lm.lora");
  EXPECT_EQ(JobNameOf({"/usr/bin/sh", "-c", "true"}), "sh");
  EXPECT_EQ(JobNameOf({"bin/mlxcommctl", "bench", "-e", "1M"}), "bench");
  EXPECT_EQ(JobNameOf({"my run\n\xff.py"}), "my-run--");
  EXPECT_EQ(JobNameOf({"/"}), "job");
  EXPECT_EQ(JobNameOf({std::string(300, 'x')}).size(), 40u);
}

TEST_F(RankCommandTest, AcceptsCommandsThatCanRun) {
  for (const Words& words : {Words{"python", "train.py"},
                             {"./run.py"},
                             {"python", "-c", "1"},
                             {folder() + "/bin/python", folder() + "/train.py"}}) {
    EXPECT_EQ(Why(words), "") << testing::PrintToString(words);
  }
}

TEST_F(RankCommandTest, SuggestsWhatToTypeInstead) {
  EXPECT_EQ(Why({"pyhton", "train.py"}), "no program pyhton in PATH; did you mean \"python\"?");
  EXPECT_EQ(Why({"python train.py"}),
            "no program \"python train.py\": remove the quotes: -- python train.py");
  EXPECT_EQ(Why({"data"}), "data is a file, not a program in PATH: write ./data");
  EXPECT_EQ(Why({"./data"}), "./data may not be executed: chmod +x ./data");
  EXPECT_EQ(Why({"./none"}), "no file ./none in " + folder());
  EXPECT_EQ(Why({"none.py"}), "none.py is not in " + folder());
  EXPECT_EQ(Why({"python", "none.py"}), "none.py is not in " + folder());
  EXPECT_EQ(Why({"python", "/none/train.py"}), "no file /none/train.py");
}

// Why: on a host without the folder of this one, ranks start in the home directory.
TEST_F(RankCommandTest, ReportsAMissingFolder) {
  RankCommand command = Of({folder() + "/bin/python", "train.py"});
  command.directory += "/none";
  EXPECT_THAT(WhyNotRun(command), HasSubstr(", and there is no folder " + folder() + "/none"));
  command.directory_needed = true;
  EXPECT_EQ(WhyNotRun(command), "no folder " + folder() + "/none");
}

}  // namespace
}  // namespace mlxcomm::ctl::rank_command_test
