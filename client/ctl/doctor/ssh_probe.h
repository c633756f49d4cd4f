// Whether hosts can be reached by ssh as launch does it, and what they have of mlxcomm: one ssh for
// each host, several at once, each with a deadline; ssh asks the user nothing (BatchMode).
//
//   ProbeCommand (ssh_command.h) ─▶ ssh ─▶ ReadSshProbe ─▶ SshHostFacts ─▶ CheckSsh
//
// A host's answers are not trusted: they are bounded, made printable, and compared, no more.
//
// Thread: main; starts threads, which have ended when it returns. Memory: at most kOutputBytesMax
// of each answer under way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/doctor/facts.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {

struct SshProbeOptions {
  std::vector<std::string> command;  // SshCommand's.
  std::string own_path;              // mlxcommctl's here: the first place to look there.
  std::string socket_path;           // The daemon's there; empty: found as by every client.
  std::uint64_t timeout_ns = 30'000'000'000;  // For each host; as long as launch waits.
};

// In the order of the hosts.
std::vector<SshHostFacts> ProbeHosts(const std::vector<std::string>& hosts,
                                     const SshProbeOptions& options);

// The meaning of ssh's output, or of its failure to end.
SshHostFacts ReadSshProbe(const std::string& host, const absl::StatusOr<ProgramOutput>& output);

}  // namespace mlxcomm::ctl
