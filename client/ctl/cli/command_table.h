// What mlxcommctl can be told, as its parser has it: the one source of completion, of the
// test that man pages say all, and of `mlxcommctl completion --json`.
//
//   main.cc's CLI::App ──TableOf──▶ Command ──▶ complete.h, JSON
//
// A value list comes from the option's type name, `type_name("{ring,tree}")`, as --help shows
// it; a file from one that is FILE or PATH, a folder from DIR, nodes from NODE or NODES. What
// --help hides (a verb of no group) is not in it.
//
// Owner: none, values. Thread: any. Memory: the table.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mlxcomm::ctl {

struct CommandOption {
  std::vector<std::string> names;  // "-n", "--ranks"; of a positional one its name alone.
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
  std::string description;  // Of it the first line.
  std::vector<CommandOption> options;
  std::vector<Command> commands;  // What it has below; then it does nothing by itself.

  // Ends in a program and its arguments.
  bool runs_program() const;
};

Command TableOf(const CLI::App& app);
// Itself and all below it, each before what is below it.
std::vector<const Command*> Flattened(const Command& top);
std::string TableJson(const Command& top);

}  // namespace mlxcomm::ctl
