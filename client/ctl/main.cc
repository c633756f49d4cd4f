// mlxcommctl: shows and controls the daemon. Its verbs: verbs.def.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/ctl/cli/arguments.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/help_format.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/verbs.h"
#include "proto/types/version.h"

int main(int argc, char** argv) {
  using namespace mlxcomm::ctl;

  CLI::App app{"mlxcommctl: inspect and control mlxcommd"};
  app.name("mlxcommctl");
  app.set_version_flag("--version", mlxcomm::kSoftwareVersion);
  app.require_subcommand(1);
  app.failure_message(UsageError);
  UseHelpFormat(app);
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
