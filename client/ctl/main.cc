// mlxcommctl: shows and steers the daemon. One file a verb.
#include <CLI/CLI.hpp>

#include "client/ctl/verbs.h"

int main(int argc, char** argv) {
  using namespace mlxcomm::ctl;

  CLI::App app{"mlxcommctl: shows and steers mlxcommd.\n"
               "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon; launch: that of the "
               "first rank that failed."};
  app.name("mlxcommctl");
  app.set_version_flag("--version", MLXCOMM_VERSION);
  app.require_subcommand(1);

  StatusOptions status_options;
  CLI::App* const status = app.add_subcommand("status", "Nodes, links, jobs, who waits for whom");
  status->add_option("--socket", status_options.socket_path, "The daemon's Unix socket");
  status->add_flag("--json", status_options.json, "For programs (StatusReply of diagnostics.proto)");

  LaunchOptions launch_options;
  CLI::App* const launch = app.add_subcommand("launch", "Start the ranks of a job on this machine");
  launch->add_option("-n,--ranks", launch_options.ranks, "How many ranks")
      ->required()
      ->check(CLI::Range(1, 64));
  launch->add_option("--job", launch_options.job, "The job's name (default: one of its own)");
  launch->add_option("--socket", launch_options.socket_path, "The daemon's Unix socket");
  launch->add_option("command", launch_options.command, "-- PROGRAM [ARGUMENT...]")->required();
  launch->positionals_at_end();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return status->parsed() ? RunStatus(status_options) : RunLaunch(launch_options);
}
