// mlxcommctl: shows and controls the daemon. Its verbs: verbs.def.
#include <algorithm>
#include <string>

#include <CLI/CLI.hpp>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/verbs.h"
#include "proto/types/version.h"

int main(int argc, char** argv) {
  using namespace mlxcomm::ctl;

  CLI::App app{"mlxcommctl: shows and controls mlxcommd"};
  app.name("mlxcommctl");
  app.set_version_flag("--version", mlxcomm::kSoftwareVersion);
  app.require_subcommand(1);
  app.failure_message(UsageError);
  const auto runs = AddVerbs(app, {argv[0], app});
  std::string codes = "\nExit codes:\n";
  for (const ExitCode& one : kExitCodes) {
    codes += "  " + std::to_string(one.code) + "  " + one.meaning + "\n";
  }
  app.footer(codes + kExitCodeOfRanks + ".");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const auto asked = [](const auto& one) { return one.first->parsed(); };
  const auto run = std::find_if(runs.begin(), runs.end(), asked);
  const CLI::Option* const json = run->first->get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0) PrintFailuresAsJson();
  return run->second();
}
