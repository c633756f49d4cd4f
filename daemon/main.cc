// mlxcommd: reads its configuration, builds the daemon, waits for a signal, drains, or becomes
// the program that follows.
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/system_facts.h"
#include "daemon/platform/trials.h"
#include "daemon/process/config_file.h"
#include "daemon/process/daemon.h"
#include "daemon/process/log.h"
#include "daemon/process/options.h"
#include "daemon/process/signals.h"
#include "daemon/process/successor.h"
#include "daemon/process/transports.h"
#include "daemon/rdma/driver_process.h"
#include "daemon/rdma/probe.h"
#include "daemon/rdma/trials.h"

namespace {

int Report(const mlxcomm::Options& options, const absl::Status& status, mlxcomm::ExitCode code) {
  std::fprintf(stderr, "mlxcommd: %s\n", std::string(status.message()).c_str());
  return mlxcomm::ExitCodeFor(options, code);
}

using Ending = mlxcomm::TerminationSignals::Ending;

// `left`: the door, for the program that takes over.
Ending WaitForTheEnd(mlxcomm::TerminationSignals& signals, mlxcomm::Daemon& daemon,
                     mlxcomm::Log& log, const mlxcomm::Successor& successor,
                     mlxcomm::intake::ListenSocket& left) {
  return signals.Wait({
      .on_hangup = [&] { daemon.Reload(log.Reopen()); },
      .on_restart = [&] { daemon.RestartWhenIdle(successor, signals); },
      .on_take_back = [&] { daemon.TakeBackRestart(); },
      .on_idle =
          [&] {
            absl::StatusOr<mlxcomm::intake::ListenSocket> handed = daemon.HandOver(successor);
            if (!handed.ok()) return false;
            left = *std::move(handed);
            return true;
          },
  });
}

// What a running daemon asks of the program that is to take its place.
int AnswerAsSuccessor(const absl::StatusOr<mlxcomm::v1::DaemonConfig>& config) {
  absl::Status fits = config.status();
  if (fits.ok()) fits = mlxcomm::CheckStateDirectory(config->state_directory());
  const std::string said = mlxcomm::DescribeAsSuccessor(std::string(fits.message()));
  return std::fputs(said.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : 1;
}

int CheckConfig(const mlxcomm::Options& options, const mlxcomm::v1::DaemonConfig& config) {
  for (const std::string& doubt : mlxcomm::WarningsOf(config)) {
    std::fprintf(stderr, "mlxcommd: %s\n", doubt.c_str());
  }
  const absl::Status kept = options.is_private
                                ? absl::OkStatus()
                                : mlxcomm::CheckStateDirectory(config.state_directory());
  return kept.ok() ? 0 : Report(options, kept, mlxcomm::ExitCode::kUsage);
}

// Its own sockets, clocks and wakeups (16 on Linux without neighbours), one client (8) and one tool
// (6).
constexpr std::uint64_t kOpenFilesNeeded = 32;
// Its program and libraries, its threads' stacks of 8 MiB, and their heaps.
constexpr std::uint64_t kAddressSpaceNeeded = 512 << 20;

absl::Status CheckOpenFiles() {
  const std::uint64_t most = mlxcomm::platform::OpenFilesMax();
  const std::uint64_t open = mlxcomm::platform::OpenFiles();
  if (most == 0 || most >= open + kOpenFilesNeeded) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the limit of open files (RLIMIT_NOFILE) is ", most, ", and mlxcommd needs ",
      open + kOpenFilesNeeded,
      " to start, more for each client and each neighbour: raise it to 1024 or more, with "
      "ulimit -n in the shell that starts it, LimitNOFILE in mlxcommd.service, or NumberOfFiles of "
      "HardResourceLimits and SoftResourceLimits in launchd's plist"));
}

absl::Status CheckAddressSpace() {
  const std::uint64_t most = mlxcomm::platform::AddressSpaceMax();
  if (most == 0 || most >= kAddressSpaceNeeded) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the limit of memory (RLIMIT_AS) is ", most, " bytes of address space, and mlxcommd needs ",
      kAddressSpaceNeeded,
      " to start, and the arena of each client as well: take it away, with ulimit -v unlimited in "
      "the shell that starts it, or LimitAS in mlxcommd.service"));
}

}  // namespace

int main(int argc, char** argv) {
  using mlxcomm::ExitCode;

  // A process of its own, that the daemon starts: the driver may hang, or crash.
  namespace rdma = mlxcomm::rdma;
  if (argc == 3 && std::string(argv[1]) == rdma::kProbeArgument) {
    return rdma::RunProbe(argv[2], rdma::Limits());
  }
  if (argc == 3 && std::string(argv[1]) == rdma::kDriverArgument) {
    return rdma::RunDriver(rdma::kDriverSocket);
  }
  if ((argc == 4 || argc == 5) && std::string(argv[1]) == rdma::kTrialArgument) {
    return mlxcomm::TryRdma(argv[2], argv[3], argc == 5 ? argv[4] : "");
  }
  if (argc == 3 && std::string(argv[1]) == mlxcomm::platform::kTrialArgument) {
    return mlxcomm::platform::RunTrial(argv[2]);
  }
  ::umask(::umask(022) | 022);  // Nothing that the daemon creates is writable by others.
  const mlxcomm::Successor successor(argc, argv);
  mlxcomm::intake::ListenSocket listen_socket = mlxcomm::TakeListenSocket();
  mlxcomm::Options options;
  if (const std::optional<int> code = mlxcomm::ParseOptions(argc, argv, options)) return *code;
  if (options.print_config) {
    const bool written =
        std::fputs(mlxcomm::AnnotatedConfig().c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (written) return 0;
    return Report(options,
                  absl::UnavailableError(std::string("cannot write the configuration: ") +
                                         std::strerror(errno)),
                  ExitCode::kStartup);
  }
  // One that a client starts for itself belongs to no cluster.
  const auto config = options.is_private && options.config_file.empty()
                          ? mlxcomm::ParseConfig("", "defaults")
                          : mlxcomm::ReadConfigFile(options.config_file);
  if (options.examined) return AnswerAsSuccessor(config);
  if (!config.ok()) return Report(options, config.status(), ExitCode::kUsage);
  if (options.check_config) return CheckConfig(options, *config);
  auto log = mlxcomm::Log::Open(config->log(), options.log_level);
  if (!log.ok()) return Report(options, log.status(), ExitCode::kStartup);

  for (const std::string& doubt : mlxcomm::WarningsOf(*config)) spdlog::warn("{}", doubt);

  mlxcomm::platform::ShareHeaps();
  // Before any thread exists, so that every thread inherits the mask and Wait()
  // below is the only place where a signal is taken.
  mlxcomm::TerminationSignals signals;
  signals.Block(options.is_private);
  mlxcomm::platform::RaiseOpenFilesMax();
  // Before anything is opened for others: a daemon that ran out in the middle of its start would leave a
  // socket behind.
  absl::Status granted = CheckOpenFiles();
  if (granted.ok()) granted = CheckAddressSpace();
  if (!granted.ok()) return Report(options, granted, ExitCode::kStartup);

  auto daemon = mlxcomm::Daemon::Create(options, *config, signals, std::move(listen_socket));
  if (!daemon.ok()) return Report(options, daemon.status(), ExitCode::kStartup);
  const absl::Status started = (*daemon)->Start();
  if (!started.ok()) return Report(options, started, ExitCode::kStartup);

  mlxcomm::intake::ListenSocket left;
  if (WaitForTheEnd(signals, **daemon, *log, successor, left) == Ending::kTakenOver) {
    daemon->reset();
    spdlog::shutdown();
    return Report(options, successor.Become(std::move(left)), ExitCode::kStartup);
  }

  // Refuse new work, finish what runs, then tell each client the truth: nobody may
  // be left waiting for a daemon that is gone.
  const absl::Status drained = (*daemon)->Drain();
  return drained.ok() ? 0 : Report(options, drained, ExitCode::kDrain);
}
