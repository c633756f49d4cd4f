// mlxcommd: reads its options and configuration, then runs the daemon or one of its child
// processes.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "daemon/platform/trials.h"
#include "daemon/process/config_file.h"
#include "daemon/process/run_daemon.h"
#include "daemon/process/transports.h"

namespace mlxcomm {
namespace {

int PrintConfig(const Options& options) {
  if (std::fputs(AnnotatedConfig().c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  return ExitWith(options, absl::ErrnoToStatus(errno, "cannot write the configuration"),
                  ExitCode::kStartup);
}

int Run(int argc, char** argv) {
  if (const std::optional<int> code = RunTransportsChild(argc, argv)) return *code;
  if (argc == 3 && std::string_view(argv[1]) == platform::kTrialArgument)
    return platform::RunTrial(argv[2]);
  ::umask(::umask(022) | 022);  // Nothing that the daemon creates is writable by others.
  const Successor successor(argc, argv);
  intake::ListenSocket listen_socket = TakeListenSocket();
  Options options;
  if (const std::optional<int> code = ParseOptions(argc, argv, options)) return *code;
  if (options.print_config) return PrintConfig(options);
  // A daemon that a client starts for itself belongs to no cluster.
  const auto config = options.is_private && options.config_file.empty()
                          ? ParseConfig("", "defaults")
                          : ReadConfigFile(options.config_file);
  if (options.examined) return AnswerExamination(config);
  if (!config.ok()) return ExitWith(options, config.status(), ExitCode::kUsage);
  if (options.check_config) return CheckConfig(options, *config);
  return RunDaemon(options, *config, successor, std::move(listen_socket));
}

}  // namespace
}  // namespace mlxcomm

int main(int argc, char** argv) { return mlxcomm::Run(argc, argv); }
