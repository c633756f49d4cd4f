#include "daemon/process/options.h"

#include <CLI/CLI.hpp>

#include "daemon/process/config_file.h"
#include "proto/types/version.h"

namespace mlxcomm {
namespace {

// A value of the environment is not checked by CLI11, but left out.
queue::Scheduling SchedulingIn(const std::string& word) {
  if (word == "auto") return queue::Scheduling::kAuto;
  if (word == "few_cores") return queue::Scheduling::kFewCores;
  if (word == "many_cores") return queue::Scheduling::kManyCores;
  throw CLI::ValidationError("--scheduling (or MLXCOMM_SCHEDULING)",
                             "expected auto, few_cores or many_cores, got \"" + word + "\"");
}

}  // namespace

std::optional<int> ParseOptions(int argc, char** argv, Options& options) {
  CLI::App app{
      "mlxcommd: the communication daemon of mlxcomm. Stays in the foreground; SIGTERM drains, a "
      "second one ends at once."};
  app.name("mlxcommd");
  app.set_version_flag("--version", kSoftwareVersion);
  app.add_option("--config", options.config_file, "Configuration file (protobuf text format)");
  app.add_option("--socket", options.socket_path, "Unix socket for local processes")
      ->check(CLI::Validator(MistakeInSocketPath, ""));
  app.add_option("--log-level", options.log_level, "trace, debug, info, warning, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  std::string scheduling;
  app.add_option("--scheduling", scheduling,
                 "How threads share the cores, in place of the configuration: auto, few_cores or "
                 "many_cores")
      ->envname("MLXCOMM_SCHEDULING");
  app.add_flag("--private", options.is_private, "End with the last client; keep nothing on disk");
  app.add_flag("--check-config", options.check_config, "Check the configuration and end");
  app.add_flag("--print-config", options.print_config,
               "Write all of a configuration's fields with defaults, help and bounds, and end");
  app.add_flag(
      "--examined", options.examined,
      "Check the configuration, say release and protocol, and end: what a running mlxcommd asks "
      "the program that is to take its place");
  app.add_flag("--launchd", options.by_launchd,
               "End with code 0 where to be started again mends nothing (codes 2 and 3)");
  try {
    app.parse(argc, argv);
    if (!scheduling.empty()) options.scheduling = SchedulingIn(scheduling);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  return std::nullopt;
}

int ExitCodeFor(const Options& options, ExitCode code) {
  const bool again_mends = code != ExitCode::kUsage && code != ExitCode::kDrain;
  return options.by_launchd && !again_mends ? 0 : static_cast<int>(code);
}

}  // namespace mlxcomm
