#include "client/ctl/cli/command_table.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>

#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/text.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

std::vector<std::string> ValuesIn(const std::string& type_name) {
  const std::size_t begin = type_name.find('{');
  const std::size_t end = type_name.find('}');
  std::vector<std::string> values;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return values;
  std::istringstream list(type_name.substr(begin + 1, end - begin - 1));
  for (std::string value; std::getline(list, value, ',');) values.push_back(value);
  return values;
}

CommandOption OptionOf(const CLI::Option& option) {
  CommandOption made;
  made.positional = option.get_positional();
  if (made.positional) made.names.push_back(option.get_name(true));
  if (!made.positional) {
    for (const std::string& name : option.get_snames()) made.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) made.names.push_back("--" + name);
  }
  made.description = FirstLine(option.get_description());
  made.takes_value = option.get_items_expected_max() > 0;
  made.required = option.get_required();
  const std::string type = option.get_type_name();
  made.values = ValuesIn(type);
  made.takes_file = type.starts_with("FILE") || type.starts_with("PATH");
  made.takes_folder = type.starts_with("DIR");
  made.takes_nodes = type.starts_with("NODE");
  made.takes_list = type.starts_with("NODES");
  return made;
}

void Fill(const CLI::App& app, Command& command) {
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_positional() && option->get_group().empty()) continue;  // The verb refuses it.
    command.options.push_back(OptionOf(*option));
  }
  for (const CLI::App* const below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_group().empty()) continue;  // Hidden from --help.
    Command made;
    made.name = below->get_name();
    made.path = command.path + (command.path.empty() ? "" : " ") + made.name;
    made.description = FirstLine(below->get_description());
    Fill(*below, made);
    command.commands.push_back(std::move(made));
  }
}

}  // namespace

bool Command::runs_program() const {
  return std::ranges::any_of(options, [](const CommandOption& option) {
    return option.positional && option.names.front() == "command";
  });
}

Command TableOf(const CLI::App& app) {
  Command top;
  top.name = app.get_name();
  top.description = FirstLine(app.get_description());
  Fill(app, top);
  return top;
}

std::vector<const Command*> Flattened(const Command& top) {
  std::vector<const Command*> all{&top};
  for (const Command& below : top.commands) {
    const std::vector<const Command*> more = Flattened(below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string TableJson(const Command& top) {
  v1::CommandTable table;
  for (const Command* const command : Flattened(top)) {
    v1::CommandEntry& entry = *table.add_commands();
    entry.set_path(command->path);
    entry.set_description(command->description);
    entry.set_has_commands(!command->commands.empty());
    for (const CommandOption& option : command->options) {
      v1::CommandOption& reported = *entry.add_options();
      reported.mutable_names()->Assign(option.names.begin(), option.names.end());
      reported.set_description(option.description);
      reported.mutable_values()->Assign(option.values.begin(), option.values.end());
      reported.set_takes_value(option.takes_value);
      reported.set_takes_file(option.takes_file || option.takes_folder);
      reported.set_required(option.required);
      reported.set_positional(option.positional);
    }
  }
  return JsonOf(std::move(table));
}

}  // namespace mlxcomm::ctl
