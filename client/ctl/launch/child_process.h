// Programs that launch starts: each leads a process group of its own, and has signals as a program
// expects them.
//
// Owner: local_ranks, ssh_host, rank_keeper. Thread: main, which alone forks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace mlxcomm::ctl {

// As fork(). A signal that comes before the child has become its program ends it: the parent's
// handlers would swallow it. Signals that the parent ignores (nohup) stay ignored.
pid_t ForkGroup();
// In the child: sets standard input, output and error, and executes the program. If that fails, it
// writes the reason to `error` and exits with 127.
[[noreturn]] void Become(const std::vector<std::string>& command, int in, int out, int error);

}  // namespace mlxcomm::ctl
