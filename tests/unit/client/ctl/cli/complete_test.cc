// What shells do with the answers is tested by tests/shell/test_completion.py.
#include "client/ctl/cli/complete.h"

#include <gmock/gmock.h>

namespace mlxcomm::ctl::complete_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CommandOption Option(std::vector<std::string> names, const std::string& description) {
  CommandOption option;
  option.names = std::move(names);
  option.description = description;
  option.takes_value = true;
  return option;
}

class CompleteTest : public testing::Test {
 protected:
  CompleteTest() {
    Command bench;
    bench.path = bench.name = "bench";
    bench.description = "How";
    bench.options = {Option({"-o", "--op"}, "Which way"), Option({"--bytes"}, "What each passes"),
                     Option({"--cwd"}, "Where"), Option({"--steps"}, "All steps"),
                     Option({"--socket"}, "The socket")};
    bench.options[0].values = {"ring", "tree"};
    bench.options[0].takes_list = true;
    bench.options[2].takes_folder = true;
    bench.options[3].takes_value = false;
    bench.options[4].takes_file = true;
    Command ping = bench;
    ping.path = ping.name = "ping";
    ping.options.push_back(Option({"node"}, "Its name"));
    ping.options.back().positional = ping.options.back().takes_nodes = true;
    Command launch;
    launch.path = launch.name = "launch";
    launch.options = {Option({"-n"}, "How many"), Option({"command"}, "The program")};
    launch.options[1].positional = true;
    top_.commands = {bench, ping, launch};
  }

  std::vector<std::string> Offered(std::vector<std::string> words) {
    words.insert(words.begin(), "mlxcommctl");
    return Complete(top_, words, [this](const std::string& socket) {
      asked_ = socket;
      return nodes_;
    });
  }

  Command top_;
  std::vector<std::string> nodes_;
  std::string asked_ = "nobody";
};

TEST_F(CompleteTest, OffersVerbsThenTheirOptions) {
  EXPECT_THAT(Offered({""}), ElementsAre("bench\tHow", "ping\tHow", "launch\t"));
  EXPECT_THAT(Offered({"p"}), ElementsAre("ping\tHow"));
  EXPECT_THAT(Offered({"bench", "--s"}), ElementsAre("--steps\tAll steps", "--socket\tThe socket"));
  EXPECT_THAT(Offered({"bench", ""}).size(), 6u) << "nothing else can stand there";
  EXPECT_THAT(Offered({"nothing", "-"}), IsEmpty());
  EXPECT_THAT(Offered({}), IsEmpty());
}

TEST_F(CompleteTest, OffersValuesInBothFormsAndTheNextOfAList) {
  EXPECT_THAT(Offered({"bench", "-o", "r"}), ElementsAre("ring\tWhich way"));
  EXPECT_THAT(Offered({"bench", "--op=r"}), ElementsAre("--op=ring\tWhich way"));
  EXPECT_THAT(Offered({"bench", "--op=tree,r"}), ElementsAre("--op=tree,ring\tWhich way"));
  EXPECT_THAT(Offered({"bench", "--bytes", ""}), ElementsAre(":hint What each passes"));
  EXPECT_THAT(Offered({"bench", "--steps=r"}), IsEmpty()) << "a flag has no value";
  EXPECT_THAT(Offered({"bench", "--socket=x"}), ElementsAre(":files"));
  EXPECT_THAT(Offered({"bench", "--cwd", "x"}), ElementsAre(":folders"));
}

// Why: an option's value may be any word, even a verb's name or one that begins with a hyphen.
TEST_F(CompleteTest, SkipsValuesOfOptions) {
  EXPECT_THAT(Offered({"bench", "--bytes", "ping", "--cw"}), ElementsAre("--cwd\tWhere"));
  EXPECT_THAT(Offered({"launch", "-n", "--", "-"}), ElementsAre("-n\tHow many"));
}

TEST_F(CompleteTest, LeavesAProgramToTheShell) {
  EXPECT_THAT(Offered({"launch", "-n", "2", "--", ""}), ElementsAre(":program 5"));
  EXPECT_THAT(Offered({"launch", "-n", "2", "--", "cat", "-"}), ElementsAre(":program 5"));
  EXPECT_THAT(Offered({"launch", "-n", "2", "cat", "--x", "y"}), ElementsAre(":program 4"));
  EXPECT_THAT(Offered({"launch", "c"}), ElementsAre(":program 2"));
}

// Why: nodes choose their names, and bash inserts an offered word unchanged.
TEST_F(CompleteTest, OffersOnlyNodeNamesThatAreSafeInAShell) {
  nodes_ = {"mac-1", "mac-2.local", "$(reboot)", "a b", "-x", "a\nb", "*", "", "~root"};
  EXPECT_THAT(Offered({"ping", ""}), ElementsAre("mac-1\tIts name", "mac-2.local\tIts name"));
  EXPECT_EQ(asked_, "");
  EXPECT_THAT(Offered({"ping", "--socket", "s", "mac-2"}), ElementsAre("mac-2.local\tIts name"));
  EXPECT_EQ(asked_, "s");
  Offered({"ping", "--socket=t", "m"});
  EXPECT_EQ(asked_, "t");
  EXPECT_THAT(Offered({"ping", "mac-1", ""}).size(), 6u) << "one is enough";
}

}  // namespace
}  // namespace mlxcomm::ctl::complete_test
