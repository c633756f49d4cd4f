#include "client/ctl/cli/help_format.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <vector>

#include <CLI/CLI.hpp>

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kTextAt = 26;  // Where the descriptions begin.

// "COUNT" of "COUNT:INT in [1 - 64]"; "{ring,tree}" of "{ring,tree}:{ring,tree}".
std::string TypeOf(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  return type.starts_with('{') ? type.substr(0, type.find('}') + 1)
                               : type.substr(0, type.find(':'));
}

std::string Row(const std::string& left, const std::string& text) {
  std::string row = "  " + left;
  const bool fits = row.size() + 2 <= kTextAt;
  row.resize(fits ? kTextAt : row.size(), ' ');
  std::istringstream lines(Wrapped(text, kColumns - kTextAt));
  bool first = fits;
  for (std::string line; std::getline(lines, line);) {
    row += (first ? "" : "\n" + std::string(kTextAt, ' ')) + line;
    first = false;
  }
  return row + "\n";
}

std::string RowOf(const CLI::Option& option) {
  std::string names = option.get_name(false, true);
  for (std::size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 2) {
    names.insert(at + 1, " ");
  }
  std::string type = TypeOf(option);
  std::string text = option.get_description();
  const bool is_long = type.starts_with('{') && type.size() > 2 * kTextAt;
  if (is_long) {
    std::string values = type.substr(1, type.size() - 2);
    for (std::size_t at = 0; (at = values.find(',', at)) != std::string::npos; at += 2) {
      values.insert(at + 1, " ");
    }
    text += ": " + values;
    type = "NAME";
  }
  return Row(names + (type.empty() ? "" : " " + type), text);
}

std::string UsageOf(const CLI::App& app, const std::string& name) {
  std::string usage = "Usage: " + name;
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) usage += " VERB";
  usage += " [OPTIONS]";
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_positional() || option->get_group().empty()) continue;
    const bool is_program = option->get_name() == "command";
    std::string word = is_program ? "-- PROGRAM [ARGUMENT...]" : TypeOf(*option);
    if (word.empty() || word == "TEXT") {
      word = option->get_name();
      std::ranges::transform(word, word.begin(), [](unsigned char letter) {
        return static_cast<char>(std::toupper(letter));
      });
    }
    usage += " " + (option->get_required() || is_program ? word : "[" + word + "]");
  }
  return usage + "\n";
}

class HelpFormat final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    std::string help = Wrapped(app->get_description(), kColumns) + "\n" + UsageOf(*app, name);
    const auto below = app->get_subcommands([](const CLI::App*) { return true; });
    std::vector<std::string> groups;
    for (const CLI::App* const verb : below) {
      const std::string& group = verb->get_group();
      if (!group.empty() && std::ranges::find(groups, group) == groups.end())
        groups.push_back(group);
    }
    for (const std::string& group : groups) {
      help += "\n" + group + ":\n";
      for (const CLI::App* const verb : below) {
        if (verb->get_group() == group) help += Row(verb->get_name(), verb->get_description());
      }
    }
    help += "\nOptions:\n";
    for (const CLI::Option* const option : app->get_options()) {
      if (!option->get_positional() && !option->get_group().empty()) help += RowOf(*option);
    }
    if (!app->get_footer().empty()) help += "\n" + Wrapped(app->get_footer(), kColumns);
    return help;
  }
};

}  // namespace

std::string Wrapped(const std::string& text, std::size_t columns) {
  std::istringstream lines(text);
  std::string wrapped;
  std::string line;  // That is being filled.
  const auto flush = [&] {
    if (!line.empty()) wrapped += line + "\n";
    line.clear();
  };
  for (std::string next; std::getline(lines, next);) {
    if (next.empty() || next.front() == ' ') {
      flush();
      wrapped += next + "\n";
      continue;
    }
    std::istringstream words(next);
    for (std::string word; words >> word;) {
      if (!line.empty() && line.size() + 1 + word.size() > columns) flush();
      line += (line.empty() ? "" : " ") + word;
    }
  }
  flush();
  return wrapped;
}

void UseHelpFormat(CLI::App& app) { app.formatter(std::make_shared<HelpFormat>()); }

}  // namespace mlxcomm::ctl
