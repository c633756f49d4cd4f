// The hidden verb manual prints the man page mlxcommctl(1), which the build installs. Verbs and
// options come from the parser; the rest of the page is here.
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
It looks for the daemon's socket in this order:
.Fl -socket ,
.Ev MLXCOMM_SOCKET ,
the service's, and this user's private daemon's.
.Pp
With
.Fl -json
a verb prints only JSON on standard output.
.Nm
.Cm schema Ar verb
prints its JSON Schema.
64-bit numbers are strings.
A verb that fails prints an object with
.Ql error
as its last line.
Later releases may add fields, but do not change the meaning of a field.
.Sh VERBS
)man";

constexpr char kPlaces[] = R"man(.Sh ENVIRONMENT
.Bl -tag -width Ds
.It Ev MLXCOMM_SOCKET
The daemon's Unix socket.
.It Ev MLXCOMM_JOB , MLX_RANK , MLX_WORLD_SIZE
A rank's job, number and number of ranks.
Launchers set them, and
.Cm bench
reads them, or those of Open MPI, PMI, Slurm and torchrun.
.It Ev NO_COLOR
If it is not empty, output has no colours.
Output also has none if it is not a terminal, or if
.Ev TERM
is dumb.
.El
.Sh FILES
.Bl -tag -width Ds
.It Pa /var/run/mlxcommd/mlxcommd.sock
The service's socket.
.It Pa /etc/mlxcommd/key , ~/.config/mlxcommd/key
The cluster's key: root's, and another user's.
.El
)man";

constexpr char kPageEnd[] = R"man(.Sh SEE ALSO
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
