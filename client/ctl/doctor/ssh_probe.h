// Whether hosts can be reached by ssh as launch does it, and what there is of mlxcomm on them: one ssh for
// each host, several at once, each with a deadline; nobody is asked for anything (BatchMode).
//
//   ProbeCommand (ssh_command.h) ─▶ ssh ─▶ ReadSshProbe ─▶ SshHostFacts ─▶ CheckSsh
//
// What a host says is its own word: bounded, printable, and compared, no more.
//
// Owner: functions. Thread: main; threads of its own, which have ended when it returns. Memory: of each
// answer under way at most kOutputBytesMax.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/program_output.h"

namespace mlxcomm::ctl {

struct SshProbeOptions {
  std::vector<std::string> command;  // SshCommand's.
  std::string own_path;              // Of mlxcommctl here: it is looked for there first.
  std::string socket_path;           // Of the daemon there; empty: as every client looks for it.
  std::uint64_t timeout_ns = 30'000'000'000;  // For each host; so long does launch wait.
};

// In the order of the hosts.
std::vector<SshHostFacts> ProbeHosts(const std::vector<std::string>& hosts,
                                     const SshProbeOptions& options);

// What ssh's output, or its not having ended, means.
SshHostFacts ReadSshProbe(const std::string& host, const absl::StatusOr<ProgramOutput>& output);

}  // namespace mlxcomm::ctl
