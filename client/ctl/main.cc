// mlxcommctl: shows and controls the daemon. Its verbs: verbs.def.
#include <algorithm>

#include <CLI/CLI.hpp>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/verbs.h"
#include "proto/types/version.h"

int main(int argc, char** argv) {
  using namespace mlxcomm::ctl;

  CLI::App app{
      "mlxcommctl: shows and steers mlxcommd.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon, 4 doctor has "
      "warnings; launch and bench -n: that of the "
      "first rank that failed."};
  app.name("mlxcommctl");
  app.set_version_flag("--version", mlxcomm::kSoftwareVersion);
  app.require_subcommand(1);
  app.failure_message(UsageError);
  const auto runs = AddVerbs(app, {argv[0], app});
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
