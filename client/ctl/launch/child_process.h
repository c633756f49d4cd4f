// Starts programs for launch: each leads a process group, and has the default signal handling.
//
// Owner: local_ranks, ssh_host, rank_keeper. Thread: main; no other thread forks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace mlxcomm::ctl {

// Like fork(). A signal before Become ends the child, because the parent's handlers would swallow
// it. Signals that the parent ignores (nohup) stay ignored.
pid_t ForkGroup();
// In the child: executes the program with these descriptors. On failure prints the reason to
// `error` and exits with 127.
[[noreturn]] void Become(const std::vector<std::string>& command, int in, int out, int error);

}  // namespace mlxcomm::ctl
