// The commands and options of mlxcommctl, read from its parser: the source for completion, for
// `mlxcommctl completion --json` and for the test that the man page is complete.
//
//   main.cc's CLI::App ──TableOf──▶ Command ──▶ complete.h, JSON
//
// An option's type name, which --help shows, says what it takes: "{ring,tree}" lists its values,
// FILE and PATH mean a file, DIR a folder, NODE and NODES nodes. Verbs without a group are hidden.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mlxcomm::ctl {

struct CommandOption {
  std::vector<std::string> names;  // "-n", "--ranks"; for a positional one only its name.
  std::string description;
  std::vector<std::string> values;  // Empty: anything.
  bool takes_value = false;
  bool takes_file = false;
  bool takes_folder = false;
  bool takes_nodes = false;
  bool takes_list = false;  // a,b
  bool required = false;
  bool positional = false;
};

struct Command {
  std::string path;  // "", "status", "cluster create"
  std::string name;
  std::string description;  // Its first line.
  std::vector<CommandOption> options;
  std::vector<Command> commands;  // Subcommands; a command that has any cannot run itself.

  bool runs_program() const;
};

Command TableOf(const CLI::App& app);
// The command and all below it, each before its own subcommands.
std::vector<const Command*> Flattened(const Command& top);
std::string TableJson(const Command& top);

}  // namespace mlxcomm::ctl
