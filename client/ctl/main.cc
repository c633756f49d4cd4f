// mlxcommctl: shows and controls the daemon. verbs.def lists its verbs.
#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/verbs.h"
#include "proto/types/version.h"

namespace mlxcomm::ctl {
namespace {

// Wraps paragraphs at `columns`; lines that begin with a blank stay as they are.
std::string Wrapped(const std::string& text, std::size_t columns) {
  std::istringstream lines(text);
  std::string wrapped;
  std::string line;
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
constexpr std::size_t kTextAt = 26;  // The column of descriptions.

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

// 80 columns, options without the parser's notes, examples and exit codes last.
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

// If this is the first argument, mlxcommctl parses the others and runs nothing. Tests use it for
// documented commands.
constexpr char kCheckUsage[] = "__check";

// Options that nearly all verbs have.
constexpr std::string_view kBeforeVerbs[] = {"--json", "--verbose"};
constexpr std::string_view kBeforeVerbsWithValue[] = {"--socket", "--config"};

// Returns how many words from `at` on name a verb: 2 for `service logs`.
std::size_t WordsOfVerb(const std::vector<std::string>& words, std::size_t at) {
  std::size_t most = 0;
  std::string path;
  for (std::size_t count = 1; at + count <= words.size(); ++count) {
    path += (count == 1 ? "" : " ") + words[at + count - 1];
    if (std::ranges::any_of(Verbs(), [&](const Verb& verb) { return path == verb.path; }))
      most = count;
  }
  return most;
}

// Returns how many words the options before the verb take; 0: none, or the parser refuses them.
std::size_t OptionsBeforeVerb(const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with("--")) {
    const std::string name = words[at].substr(0, words[at].find('='));
    const bool has_value =
        std::ranges::find(kBeforeVerbsWithValue, name) != std::end(kBeforeVerbsWithValue);
    if (!has_value && std::ranges::find(kBeforeVerbs, name) == std::end(kBeforeVerbs)) return 0;
    at += has_value && name == words[at] ? 2 : 1;
  }
  return at < words.size() ? at : 0;
}

// The words as the parser reads them:
//
//   help launch            launch --help
//   version, -V, -v        --version
//   --json status          status --json
std::vector<std::string> NormalisedArguments(std::vector<std::string> words) {
  if (words.empty()) return {"--help"};
  if (words[0] == "help") {
    words.erase(words.begin());
    const std::size_t verb = WordsOfVerb(words, 0);
    if (words.empty() || verb > 0) {
      words.resize(verb);
      words.emplace_back("--help");
    }
    return words;  // The parser reports an unknown verb.
  }
  if (words.size() == 1 && (words[0] == "version" || words[0] == "-V" || words[0] == "-v"))
    return {"--version"};
  const std::size_t options = OptionsBeforeVerb(words);
  const std::size_t verb = options == 0 ? 0 : WordsOfVerb(words, options);
  if (verb > 0) {
    std::rotate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(options),
                words.begin() + static_cast<std::ptrdiff_t>(options + verb));
  }
  return words;
}

}  // namespace
}  // namespace mlxcomm::ctl

int main(int argc, char** argv) {
  using namespace mlxcomm::ctl;

  CLI::App app{"mlxcommctl: inspect and control mlxcommd"};
  app.name("mlxcommctl");
  app.set_version_flag("--version", mlxcomm::kSoftwareVersion);
  app.require_subcommand(1);
  app.failure_message(UsageError);
  app.formatter(std::make_shared<HelpFormat>());  // Verbs added later inherit it.
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
    std::ranges::reverse(words);  // The parser takes them from the end.
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
