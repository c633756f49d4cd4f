// mlxcommctl: shows and controls the daemon. Its verbs: verbs.def.
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "client/ctl/cli/arguments.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/verbs.h"
#include "proto/types/version.h"

namespace mlxcomm::ctl {
namespace {

// Paragraphs at most `columns` wide; lines that begin with a blank stay as they are.
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
  const std::string names = absl::StrReplaceAll(option.get_name(false, true), {{",", ", "}});
  std::string type = TypeOf(option);
  std::string text = option.get_description();
  if (type.starts_with('{') && type.size() > 2 * kTextAt) {
    text += ": " + absl::StrReplaceAll(type.substr(1, type.size() - 2), {{",", ", "}});
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
      word = absl::AsciiStrToUpper(option->get_name());
    }
    usage += " " + (option->get_required() || is_program ? word : "[" + word + "]");
  }
  return usage + "\n";
}

// At most 80 columns, options without the parser's notes, examples and exit codes last.
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
}  // namespace mlxcomm::ctl

int main(int argc, char** argv) {
  using namespace mlxcomm::ctl;

  CLI::App app{"mlxcommctl: inspect and control mlxcommd"};
  app.name("mlxcommctl");
  app.set_version_flag("--version", mlxcomm::kSoftwareVersion);
  app.require_subcommand(1);
  app.failure_message(UsageError);
  app.formatter(std::make_shared<HelpFormat>());  // Also of verbs added later.
  const auto runs = AddVerbs(app, {argv[0], app});
  std::string codes =
      "Examples:\n  mlxcommctl status\n  mlxcommctl launch -n 2 train.py\n\nExit codes:\n";
  for (const ExitCode& one : kExitCodes) {
    codes += "  " + std::to_string(one.code) + "  " + one.meaning + "\n";
  }
  app.footer(codes + kExitCodeOfRanks + ".");
  std::vector<std::string> words = NormalisedArguments({argv + 1, argv + argc});
  const bool only_checks = words[0] == kCheckUsage;
  if (only_checks) words.erase(words.begin());
  try {
    std::ranges::reverse(words);  // As the parser takes them.
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return WriteOut(app.help(), "help");
  } catch (const CLI::CallForVersion&) {
    return WriteOut(std::string(mlxcomm::kSoftwareVersion) + "\n", "version");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (only_checks) return 0;
  const auto asked = [](const auto& one) { return one.first->parsed(); };
  const auto run = std::ranges::find_if(runs, asked);
  const CLI::Option* const json = run->first->get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0) PrintFailuresAsJson();
  return run->second();
}
