#include "client/ctl/command_table.h"

#include <algorithm>
#include <sstream>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <CLI/CLI.hpp>

namespace mlxcomm::ctl {
namespace {

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

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
  // Every verb has --socket, and it is always a path.
  const bool socket = std::count(made.names.begin(), made.names.end(), "--socket") != 0;
  made.takes_file = socket || type.starts_with("FILE") || type.starts_with("PATH");
  made.takes_folder = type.starts_with("DIR");
  made.takes_nodes = type.starts_with("NODE");
  made.takes_list = option.get_delimiter() == ',' || type.starts_with("NODES");
  return made;
}

void Fill(const CLI::App& app, Command& command) {
  for (const CLI::Option* const option : app.get_options()) {
    command.options.push_back(OptionOf(*option));
  }
  for (const CLI::App* const below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_name().empty()) {  // Only groups options.
      Fill(*below, command);
      continue;
    }
    if (below->get_group().empty()) continue;  // Hidden from --help.
    Command made;
    made.name = below->get_name();
    made.path = command.path + (command.path.empty() ? "" : " ") + made.name;
    made.description = FirstLine(below->get_description());
    Fill(*below, made);
    command.commands.push_back(std::move(made));
  }
}

google::protobuf::Value Text(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  return value;
}

google::protobuf::Value List(const std::vector<std::string>& texts) {
  google::protobuf::Value value;
  auto& list = *value.mutable_list_value();
  for (const std::string& text : texts) *list.add_values() = Text(text);
  return value;
}

google::protobuf::Value Flag(bool set) {
  google::protobuf::Value value;
  value.set_bool_value(set);
  return value;
}

google::protobuf::Value JsonOf(const CommandOption& option) {
  google::protobuf::Value value;
  auto& fields = *value.mutable_struct_value()->mutable_fields();
  fields["names"] = List(option.names);
  fields["description"] = Text(option.description);
  fields["values"] = List(option.values);
  fields["takes_value"] = Flag(option.takes_value);
  fields["takes_file"] = Flag(option.takes_file || option.takes_folder);
  fields["required"] = Flag(option.required);
  fields["positional"] = Flag(option.positional);
  return value;
}

}  // namespace

bool Command::runs_program() const {
  return std::any_of(options.begin(), options.end(), [](const CommandOption& option) {
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
  google::protobuf::Value table;
  auto& commands =
      *(*table.mutable_struct_value()->mutable_fields())["commands"].mutable_list_value();
  for (const Command* const command : Flattened(top)) {
    auto& fields = *commands.add_values()->mutable_struct_value()->mutable_fields();
    fields["path"] = Text(command->path);
    fields["description"] = Text(command->description);
    fields["has_commands"] = Flag(!command->commands.empty());
    auto& options = *fields["options"].mutable_list_value();
    for (const CommandOption& option : command->options) *options.add_values() = JsonOf(option);
  }
  std::string text;
  google::protobuf::util::JsonPrintOptions format;
  format.add_whitespace = true;
  // Of our own texts: these are UTF-8, and nothing else can be wrong.
  if (!google::protobuf::util::MessageToJsonString(table, &text, format).ok()) return {};
  return text;
}

}  // namespace mlxcomm::ctl
