#include "daemon/process/options.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <CLI/CLI.hpp>

#include "daemon/process/config_file.h"
#include "proto/system/man_page.h"
#include "proto/types/did_you_mean.h"
#include "proto/types/plain_text.h"
#include "proto/types/version.h"

namespace mlxcomm {
namespace {

// mlxcommd(8) before and after its options.
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
One runs on each machine, started by systemd or launchd, in the foreground.
If none is running, the client library starts one with
.Fl -private ,
which ends with its last client.
.Pp
SIGTERM and SIGINT drain: the daemon refuses new jobs, gives running ones the configured time to end,
then stops them with DAEMON_STOPPING.
Meanwhile
.Ic mlxcommctl status
shows how many jobs are running and how much time is left.
A second signal ends it at once.
.Pp
SIGHUP reopens the log and reads the key file again.
The log and
.Ic mlxcommctl events
report errors, and whether the configuration has changed since mlxcommd started.
.Pp
SIGUSR2 replaces the daemon by the program that is now at the path by which it was started, with the same
arguments and the current configuration.
It checks both, waits until it has no client, and runs that program in its own process.
Processes that connect in between wait.
It refuses a program that fails the check, or that has no protocol version in common with a neighbour;
.Ic mlxcommctl status
and
.Ic mlxcommctl events
say why.
SIGUSR1 cancels the request.
.Pp
Neighbours are discovered by signed hellos on each interface (IPv6 link-local multicast, UDP port 7470)
and connected to (TCP port 7470, or another one if that is in use), once the cluster has a key; see
.Cm cluster
in
.Xr mlxcommctl 1 .
The configuration can list addresses instead.
Traffic over shared networks is encrypted with TLS 1.3.
.Sh OPTIONS
)";

constexpr char kManEnd[] = R"(.Sh FILES
.Bl -tag -width Ds
.It Pa /etc/mlxcommd/mlxcommd.textproto
The configuration of the service.
.It Pa /etc/mlxcommd/key
The cluster's key for root's daemon; another user's is
.Pa ~/.config/mlxcommd/key .
Only its owner may read it.
.It Pa /var/lib/mlxcommd/node-id
The identity of this node: do not copy it to another machine.
.It Pa /var/run/mlxcommd/mlxcommd.sock
The socket of the service.
.It Pa /var/run/mlxcommd/mlxcommd.sock.running
The pid of its process, for programs that rotate its log and send SIGHUP.
.El
.Sh EXIT STATUS
.Bl -tag -width Ds
.It 0
It exited on request, after all jobs had ended.
.It 1
It could not start; standard error has the reason.
.It 2
Wrong usage or an invalid configuration.
.It 3
It stopped jobs that were still running after the drain.
.El
.Sh SEE ALSO
.Xr mlxcommctl 1)";

// CLI11 would ignore an invalid value of an environment variable.
queue::Scheduling SchedulingIn(const std::string& word) {
  if (word == "auto") return queue::Scheduling::kAuto;
  if (word == "few_cores") return queue::Scheduling::kFewCores;
  if (word == "many_cores") return queue::Scheduling::kManyCores;
  throw CLI::ValidationError("--scheduling (or MLXCOMM_SCHEDULING)",
                             "expected auto, few_cores or many_cores, got \"" + word + "\"");
}

// "mlxcommd: ..." like every other message. People who know other daemons type a word.
std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  std::string what = error.what();
  const std::vector<std::string> words = app->remaining();
  const std::string word = words.empty() ? "" : MakePrintable(words.front());
  if (word.starts_with('-')) {
    std::vector<std::string> names;
    for (const CLI::Option* const option : app->get_options()) {
      if (!option->get_group().empty()) names.push_back(option->get_name());
    }
    what = "unknown option " + word + DidYouMean(word, names);
  } else if (!word.empty()) {
    what =
        "unknown word \"" + word +
        "\": mlxcommd --config FILE runs in the foreground, mlxcommctl service install makes it a "
        "service";
  }
  return "mlxcommd: " + what + "\nmlxcommd --help lists the options\n";
}

}  // namespace

std::optional<int> ParseOptions(int argc, char** argv, Options& options) {
  CLI::App app{
      "mlxcommd: the communication daemon of mlxcomm. It runs in the foreground.\nSIGTERM drains: "
      "running jobs may finish. A second SIGTERM ends it at once."};
  app.name("mlxcommd");
  app.get_formatter()->column_width(24);
  app.failure_message(UsageError);
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", kSoftwareVersion, "Show the version");
  app.add_option("--config", options.config_file, "Configuration, in protobuf text format")
      ->type_name("FILE");
  app.add_option("--socket", options.socket_path, "Absolute path of the socket for local processes")
      ->type_name("PATH")
      ->check(CLI::Validator(MistakeInSocketPath, ""));
  app.add_option("--log-level", options.log_level, "trace, debug, info, warning, error, off")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}).description(""));
  std::string scheduling;
  app.add_option("--scheduling", scheduling,
                 "How threads share cores: auto, few_cores or\nmany_cores (MLXCOMM_SCHEDULING)")
      ->type_name("SIDE");
  app.add_flag("--private", options.is_private, "End with the last client; keep nothing on disk");
  app.add_flag("--check-config", options.check_config,
               "Check the configuration and its state directory");
  app.add_flag("--print-config", options.print_config,
               "Print every field with its default, help and bounds");
  app.add_flag(
         "--examined", options.examined,
         "Check the configuration and print release and protocol versions; a running mlxcommd "
         "calls this on its successor")
      ->group("");
  app.add_flag("--launchd", options.by_launchd,
               "Exit with 0 instead of 2 or 3, because launchd restarts a program after any other "
               "code")
      ->group("");
  app.footer("Options override the configuration.\nExample: mlxcommd --config mlxcommd.textproto");
  const auto man = [&app] { throw CLI::CallForVersion(kManBegin + ManOptions(app) + kManEnd, 0); };
  app.add_flag_callback("--man", man, "Write the man page, for the build")->group("");
  try {
    app.parse(argc, argv);
    if (const char* const word = std::getenv("MLXCOMM_SCHEDULING"); scheduling.empty() && word)
      scheduling = word;
    if (!scheduling.empty()) options.scheduling = SchedulingIn(scheduling);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  return std::nullopt;
}

int ExitWith(const Options& options, const absl::Status& error, ExitCode code) {
  std::fprintf(stderr, "mlxcommd: %s\n", std::string(error.message()).c_str());
  const bool restart_helps = code != ExitCode::kUsage && code != ExitCode::kDrain;
  return options.by_launchd && !restart_helps ? 0 : static_cast<int>(code);
}

}  // namespace mlxcomm
