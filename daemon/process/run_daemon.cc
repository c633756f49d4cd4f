#include "daemon/process/run_daemon.h"

#include <cstdint>
#include <cstdio>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/system_facts.h"
#include "daemon/process/config_file.h"
#include "daemon/process/daemon.h"
#include "daemon/process/log.h"
#include "daemon/process/signals.h"

namespace mlxcomm {
namespace {

// The daemon's sockets, clocks and wakeups (16 on Linux without neighbours), a client (8) and a
// tool (6).
constexpr std::uint64_t kOpenFilesNeeded = 32;
// The program and its libraries, its threads' stacks of 8 MiB, and their heaps.
constexpr std::uint64_t kAddressSpaceNeeded = 512 << 20;

// Checked before anything is opened for others: a daemon that ran out while it started would leave
// a socket behind.
absl::Status CheckSystemLimits() {
  const std::uint64_t files = platform::OpenFilesMax();
  const std::uint64_t needed = platform::OpenFiles() + kOpenFilesNeeded;
  if (files != 0 && files < needed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the limit of open files (RLIMIT_NOFILE) is ", files, ", and mlxcommd needs ", needed,
        " to start, more for each client and each neighbour: raise it to 1024 or more, with "
        "ulimit -n in the shell that starts it, LimitNOFILE in mlxcommd.service, or NumberOfFiles "
        "of HardResourceLimits and SoftResourceLimits in launchd's plist"));
  }
  const std::uint64_t bytes = platform::AddressSpaceMax();
  if (bytes == 0 || bytes >= kAddressSpaceNeeded) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the limit of memory (RLIMIT_AS) is ", bytes, " bytes of address space, and mlxcommd needs ",
      kAddressSpaceNeeded,
      " to start, and the arena of each client as well: remove the limit, with ulimit -v unlimited "
      "in the shell that starts it, or LimitAS in mlxcommd.service"));
}

}  // namespace

int CheckConfig(const Options& options, const v1::DaemonConfig& config) {
  const std::string warning = WarningOf(config);
  if (!warning.empty()) std::fprintf(stderr, "mlxcommd: %s\n", warning.c_str());
  if (options.is_private) return 0;
  const absl::Status safe = CheckStateDirectory(config.state_directory());
  return safe.ok() ? 0 : ExitWith(options, safe, ExitCode::kUsage);
}

int RunDaemon(const Options& options, const v1::DaemonConfig& config, const Successor& successor,
              intake::ListenSocket listen_socket) {
  auto log = Log::Open(config.log(), options.log_level);
  if (!log.ok()) return ExitWith(options, log.status(), ExitCode::kStartup);
  if (const std::string warning = WarningOf(config); !warning.empty()) spdlog::warn("{}", warning);

  platform::ShareHeaps();
  // Before any thread exists, so that every thread inherits the mask and only Wait() takes signals.
  TerminationSignals signals;
  signals.Block(options.is_private);
  platform::RaiseOpenFilesMax();
  const absl::Status granted = CheckSystemLimits();
  if (!granted.ok()) return ExitWith(options, granted, ExitCode::kStartup);

  auto created = Daemon::Create(options, config, signals, std::move(listen_socket));
  if (!created.ok()) return ExitWith(options, created.status(), ExitCode::kStartup);
  std::unique_ptr<Daemon> daemon = *std::move(created);
  const absl::Status started = daemon->Start();
  if (!started.ok()) return ExitWith(options, started, ExitCode::kStartup);

  intake::ListenSocket left;
  const auto ending = signals.Wait({
      .on_hangup = [&] { daemon->Reload(log->Reopen()); },
      .on_restart = [&] { daemon->RestartWhenIdle(successor, signals); },
      .on_take_back = [&] { daemon->TakeBackRestart(); },
      .on_idle =
          [&] {
            absl::StatusOr<intake::ListenSocket> handed = daemon->HandOver(successor);
            if (!handed.ok()) return false;
            left = *std::move(handed);
            return true;
          },
  });
  if (ending == TerminationSignals::Ending::kTakenOver) {
    daemon.reset();
    spdlog::shutdown();
    return ExitWith(options, successor.Become(std::move(left)), ExitCode::kStartup);
  }
  const absl::Status drained = daemon->Drain();
  return drained.ok() ? 0 : ExitWith(options, drained, ExitCode::kDrain);
}

}  // namespace mlxcomm
