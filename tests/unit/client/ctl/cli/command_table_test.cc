#include "client/ctl/cli/command_table.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

namespace mlxcomm::ctl::command_table_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CommandTableTest : public testing::Test {
 protected:
  CommandTableTest() {
    app_.name("mlxcommctl");
    CLI::App* const cluster = app_.add_subcommand("cluster", "Who belongs together");
    CLI::App* const create = cluster->add_subcommand("create", "Begin one\nand more of it");
    create->add_option("-n,--name", text_, "Its name")->required();
    create->add_option("--how", text_, "Which way")->type_name("{ring,tree}");
    create->add_option("--socket", text_, "The daemon's Unix socket")->type_name("PATH");
    create->add_option("--key", text_, "The key")->type_name("FILE");
    create->add_option("--where", text_, "The folder")->type_name("DIR");
    create->add_option("--nodes", text_, "Which")->type_name("NODES");
    create->add_flag("!--no-key", flag_, "Without");
    CLI::App* const launch = app_.add_subcommand("launch", "Start");
    launch->add_option("command", words_, "-- PROGRAM")->required();
  }
  const CommandOption& Option(const Command& command, const std::string& name) {
    for (const CommandOption& option : command.options) {
      if (option.names.back() == name) return option;
    }
    ADD_FAILURE() << "no " << name;
    return command.options.front();
  }

  CLI::App app_;
  std::string text_;
  std::vector<std::string> words_;
  bool flag_ = false;
};

// Why: verbs for programs do not help a person at a terminal.
TEST_F(CommandTableTest, LeavesOutVerbsThatHelpHides) {
  app_.add_subcommand("launch-agent", "What launch starts elsewhere")->group("");
  const auto table = TableOf(app_);
  for (const Command* const command : Flattened(table)) EXPECT_NE(command->name, "launch-agent");
}

TEST_F(CommandTableTest, HasEveryVerbAndOptionOfTheParser) {
  const Command top = TableOf(app_);
  ASSERT_EQ(Flattened(top).size(), 4U);
  EXPECT_EQ(Flattened(top)[0]->path, "");
  EXPECT_EQ(Flattened(top)[1]->path, "cluster");
  const Command& create = *Flattened(top)[2];
  EXPECT_EQ(create.path, "cluster create");
  EXPECT_EQ(create.description, "Begin one");
  EXPECT_THAT(Option(create, "--name").names, ElementsAre("-n", "--name"));
  EXPECT_TRUE(Option(create, "--name").required);
  EXPECT_TRUE(Option(create, "--name").takes_value);
  EXPECT_THAT(Option(create, "--how").values, ElementsAre("ring", "tree"));
  EXPECT_FALSE(Option(create, "--how").takes_file);
  EXPECT_TRUE(Option(create, "--socket").takes_file);
  EXPECT_TRUE(Option(create, "--key").takes_file);
  EXPECT_FALSE(Option(create, "--no-key").takes_value);
  EXPECT_TRUE(Option(create, "--where").takes_folder);
  EXPECT_TRUE(Option(create, "--nodes").takes_nodes && Option(create, "--nodes").takes_list);
  EXPECT_FALSE(create.runs_program());
}

TEST_F(CommandTableTest, KnowsVerbsThatRunAProgram) {
  const Command launch = *Flattened(TableOf(app_)).back();
  EXPECT_TRUE(launch.runs_program());
  EXPECT_TRUE(launch.options.back().positional);
}

TEST_F(CommandTableTest, IsJson) {
  const std::string json = TableJson(TableOf(app_));
  EXPECT_THAT(json, HasSubstr("\"cluster create\""));
  EXPECT_THAT(json, HasSubstr("\"--no-key\""));
}

}  // namespace
}  // namespace mlxcomm::ctl::command_table_test
