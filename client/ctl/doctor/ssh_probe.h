// Checks by ssh, as launch calls it, which mlxcomm and daemon other hosts have: one ssh per host, several at
// once, each with a deadline and without prompts (BatchMode).
//
//   ProbeCommand (ssh_command.h) ─▶ ssh ─▶ ReadSshProbe ─▶ SshHostFacts ─▶ CheckSsh
//
// A host's answers are not trusted: they are bounded and made printable.
//
// Thread: main; starts threads and joins them. Memory: at most kOutputBytesMax for each host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/doctor/facts.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {

struct SshProbeOptions {
  std::vector<std::string> command;           // Made by SshCommand.
  std::string own_path;                       // mlxcommctl's here: the first path to try there.
  std::string socket_path;                    // The daemon's there; empty: the default.
  std::uint64_t timeout_ns = 30'000'000'000;  // Limits each host; as long as launch waits.
};

std::vector<SshHostFacts> ProbeHosts(const std::vector<std::string>& hosts,
                                     const SshProbeOptions& options);

SshHostFacts ReadSshProbe(const std::string& host, const absl::StatusOr<ProgramOutput>& output);

}  // namespace mlxcomm::ctl
