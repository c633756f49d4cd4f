#include "daemon/process/options.h"

#include <CLI/CLI.hpp>

#include "daemon/process/config_file.h"
#include "proto/system/man_page.h"
#include "proto/types/version.h"

namespace mlxcomm {
namespace {

// mlxcommd(8) before and behind its options.
constexpr char kManBegin[] = R"(.Dd November 28, 2026
.Dt MLXCOMMD 8
.Os
.Sh NAME
.Nm mlxcommd
.Nd communication daemon for MLX programs
.Sh SYNOPSIS
.Nm
.Op Ar options
.Nm
.Fl -config Ar file
.Fl -check-config
.Nm
.Fl -print-config
.Nm
.Fl -help | Fl -version
.Sh DESCRIPTION
.Nm
owns the cables between the machines of a cluster and carries out the collective operations of
the programs that attach to it.
One runs on each machine, started by systemd or launchd; it stays in the foreground.
If there is none, the client library starts one with
.Fl -private ,
which ends with its last client.
.Pp
SIGTERM and SIGINT drain: the daemon refuses new jobs, running ones may end for the configured time,
then they are stopped with DAEMON_STOPPING.
Meanwhile
.Ic mlxcommctl status
shows how many jobs and how much time are left.
A second signal ends it at once.
.Pp
SIGHUP opens the log again and reads the key file again.
The log and
.Ic mlxcommctl events
say what went wrong, and whether the configuration has changed since the start.
.Pp
SIGUSR2 replaces the daemon by the program that now lies at the path by which it was started, with the same
arguments and the present configuration.
It checks both, waits until it has no client, and runs that program in its own process.
Processes that connect in between wait.
It refuses a program that fails the check, or that shares no version of the protocol with a neighbour;
.Ic mlxcommctl status
and
.Ic mlxcommctl events
say why.
SIGUSR1 takes the request back.
.Pp
Neighbours are found by signed hellos on each interface (IPv6 link-local multicast, UDP port 7470)
and connected to (TCP port 7470, or another one if that is taken), as soon as there is a key of
the cluster; see
.Cm cluster
in
.Xr mlxcommctl 1 .
The configuration can give addresses instead.
Traffic over a network that others share is encrypted by TLS 1.3.
.Sh OPTIONS
)";

constexpr char kManEnd[] = R"(.Sh FILES
.Bl -tag -width Ds
.It Pa /etc/mlxcommd/mlxcommd.textproto
The configuration of the service.
.It Pa /etc/mlxcommd/key
The cluster's key, of root's daemon; of another user's
.Pa ~/.config/mlxcommd/key .
Nobody else may read it.
.It Pa /var/lib/mlxcommd/node-id
The identity of this node: do not copy it to another machine.
.It Pa /var/run/mlxcommd/mlxcommd.sock
The socket of the service.
.It Pa /var/run/mlxcommd/mlxcommd.sock.running
The number of its process, for programs that rotate its log and send SIGHUP.
.El
.Sh EXIT STATUS
.Bl -tag -width Ds
.It 0
It ended as it was asked to, and so had all jobs.
.It 1
It could not start; standard error says why.
.It 2
Wrong usage, or a configuration that is wrong.
.It 3
Jobs had to be stopped when it drained.
.El
.Sh SEE ALSO
.Xr mlxcommctl 1)";

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
  app.add_option("--config", options.config_file, "The configuration, in protobuf text format")
      ->type_name("FILE");
  app.add_option(
         "--socket", options.socket_path,
         "The Unix socket for local processes, in place of the configuration's: a path that begins "
         "with /")
      ->type_name("PATH")
      ->check(CLI::Validator(MistakeInSocketPath, ""));
  app.add_option("--log-level", options.log_level,
                 "The log's level, in place of the configuration's")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  std::string scheduling;
  app.add_option("--scheduling", scheduling,
                 "How threads share the cores, in place of the configuration's: auto, few_cores or "
                 "many_cores; a private daemon has its first client's")
      ->type_name("SIDE")
      ->envname("MLXCOMM_SCHEDULING");
  app.add_flag("--private", options.is_private, "End with the last client; keep nothing on disk");
  app.add_flag("--check-config", options.check_config,
               "Say whether the configuration and its state directory are fine, and end");
  app.add_flag("--print-config", options.print_config,
               "Write all of a configuration's fields with defaults, help and bounds, and end");
  app.add_flag(
      "--examined", options.examined,
      "Check the configuration, say release and protocol, and end: what a running mlxcommd asks "
      "the program that is to take its place");
  app.add_flag(
      "--launchd", options.by_launchd,
      "As a service of launchd, which restarts a program that ends with another code than 0: "
      "end with 0 where that would not help, in place of 2 and 3");
  const auto man = [&app] { throw CLI::CallForVersion(kManBegin + ManOptions(app) + kManEnd, 0); };
  app.add_flag_callback("--man", man, "Write the man page, for the build")->group("");
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
