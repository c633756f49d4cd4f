// mlxcommd: reads its options and configuration, then runs the daemon or one of its child processes.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "daemon/platform/trials.h"
#include "daemon/process/config_file.h"
#include "daemon/process/run_daemon.h"
#include "daemon/process/transports.h"
#include "daemon/rdma/driver_process.h"
#include "daemon/rdma/probe.h"
#include "daemon/rdma/trials.h"

namespace mlxcomm {
namespace {

int TryRdmaOf(char** arguments) {
  return TryRdma(arguments[0], arguments[1], arguments[2] == nullptr ? "" : arguments[2]);
}

// Each is a process of its own, because the driver or the system may hang or crash it.
struct ChildMode {
  std::string_view argument;
  int count;  // Arguments after it.
  int (*run)(char** arguments);
};
constexpr ChildMode kChildModes[] = {
    {rdma::kProbeArgument, 1, [](char** words) { return rdma::RunProbe(words[0], {}); }},
    {rdma::kDriverArgument, 1, [](char**) { return rdma::RunDriver(rdma::kDriverSocket); }},
    {rdma::kTrialArgument, 2, &TryRdmaOf},
    {rdma::kTrialArgument, 3, &TryRdmaOf},
    {platform::kTrialArgument, 1, [](char** words) { return platform::RunTrial(words[0]); }},
};

int PrintConfig(const Options& options) {
  if (std::fputs(AnnotatedConfig().c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  return ExitWith(options, absl::ErrnoToStatus(errno, "cannot write the configuration"),
                  ExitCode::kStartup);
}

int Run(int argc, char** argv) {
  for (const ChildMode& mode : kChildModes) {
    if (argc == mode.count + 2 && argv[1] == mode.argument) return mode.run(argv + 2);
  }
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
