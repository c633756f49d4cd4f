// The commands and options of mlxcommctl, as its parser has them: the one source for completion,
// for the test that the man page is complete, and for `mlxcommctl completion --json`.
//
//   main.cc's CLI::App ──TableOf──▶ Command ──▶ complete.h, JSON
//
// A value list comes from the option's type name, `type_name("{ring,tree}")`, as --help shows it; a
// file from FILE or PATH, a folder from DIR, nodes from NODE or NODES. Verbs that --help hides
// (those without a group) are not in it.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mlxcomm::ctl {

struct CommandOption {
  std::vector<std::string> names;  // "-n", "--ranks"; a positional one has its name alone.
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
  std::vector<Command> commands;  // Its subcommands; with any it does nothing by itself.

  bool runs_program() const;
};

Command TableOf(const CLI::App& app);
// Itself and all below it, each before its own subcommands.
std::vector<const Command*> Flattened(const Command& top);
std::string TableJson(const Command& top);

}  // namespace mlxcomm::ctl
