// The hidden verb manual: the man page mlxcommctl(1), which the build writes and installs. Verbs and
// options are the parser's; what belongs to no verb stands here.
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "proto/system/man_page.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kPageBegin[] = R"man(.Dd November 28, 2026
.Dt MLXCOMMCTL 1
.Os
.Sh NAME
.Nm mlxcommctl
.Nd show and control mlxcommd, start jobs, measure
.Sh SYNOPSIS
.Nm
.Ar verb
.Op Ar options
.Nm
.Op Ar verb
.Fl -help
.Nm
.Fl -version
.Sh DESCRIPTION
.Nm
asks the communication daemon
.Xr mlxcommd 8
of this machine, and through it its cluster.
.Pp
It finds the daemon as every client does: by the socket that
.Fl -socket
names, else by
.Ev MLXCOMM_SOCKET ,
else the service's, else that of a private daemon of this user.
.Pp
With
.Fl -json
a verb prints JSON, and nothing else on standard output.
.Nm
.Cm schema Ar verb
prints its JSON Schema.
Later releases may add fields; no field changes its meaning.
64-bit numbers are strings.
A verb that fails prints an object with
.Ql error
as its last line.
.Sh VERBS
)man";

constexpr char kPlaces[] = R"man(.Sh ENVIRONMENT
.Bl -tag -width Ds
.It Ev MLXCOMM_SOCKET
The daemon's Unix socket.
.It Ev MLXCOMM_JOB , MLX_RANK , MLX_WORLD_SIZE
A rank's place; launchers set them, and
.Cm bench
reads them.
Those of Open MPI, PMI, Slurm and torchrun mean the same.
.It Ev NO_COLOR
If it is not empty, there are no colours.
Nor are there any if standard output is not a terminal, or
.Ev TERM
is dumb.
.El
.Sh FILES
.Bl -tag -width Ds
.It Pa /var/run/mlxcommd/mlxcommd.sock
The service's socket.
.It Pa /etc/mlxcommd/key , ~/.config/mlxcommd/key
The cluster's key, of root's daemon and of another user's.
.El
)man";

constexpr char kPageEnd[] = R"man(.Sh EXAMPLES
.Bd -literal
mlxcommctl launch -n 4 -- python train.py
mlxcommctl launch --hosts mac-[1-4] -- python train.py
mlxcommctl hosts export -o hosts.json
sudo "$(command -v mlxcommctl)" service install
mlxcommctl doctor --ssh --hosts mac-[1-4]
mlxcommctl status --json | jq '.jobs[].ranks[].program'
source <(mlxcommctl completion bash)
.Ed
.Sh SEE ALSO
.Xr mlxcommd 8
)man";

const CLI::App* CommandOf(const CLI::App& app, const std::string& path) {
  const std::size_t blank = path.find(' ');
  const CLI::App* const below = app.get_subcommand(path.substr(0, blank));
  return blank == std::string::npos ? below : CommandOf(*below, path.substr(blank + 1));
}

std::string VerbsOf(const CLI::App& app) {
  std::string text;
  for (const Verb& verb : Verbs()) {
    if (verb.hidden || verb.add == nullptr) continue;
    const CLI::App& command = *CommandOf(app, verb.path);
    text += std::string(".Ss ") + verb.path + "\n" + ManText(std::string(verb.help) + ".");
    if (!command.get_footer().empty()) text += ".Pp\n" + ManText(command.get_footer());
    text += ManOptions(command);
  }
  return text;
}

int RunManual(const CLI::App& app) {
  std::string page = kPageBegin + VerbsOf(app) + kPlaces + ".Sh EXIT STATUS\n.Bl -tag -width Ds\n";
  for (const ExitCode& one : kExitCodes) {
    page += ".It " + std::to_string(one.code) + "\n" + ManText(std::string(one.meaning) + ".");
  }
  page += ".El\n.Pp\n" + ManText(std::string(kExitCodeOfRanks) + ".");
  return WriteOut(page + kPageEnd, "man page");
}

}  // namespace

Run AddManual(CLI::App&, const Invocation& invocation) {
  return [&app = invocation.app] { return RunManual(app); };
}

}  // namespace mlxcomm::ctl
