// Programs that launch starts: each leads a process group of its own, and has signals as a
// program expects them.
//
// Owner: local_ranks, ssh_host, rank_keeper. Thread: main, which alone forks. Memory: none.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

// Both ends are closed in programs that are started. False: errno says why.
bool MakePipe(std::array<int, 2>& ends);
void CloseDescriptor(int& descriptor);

// As fork(). A signal that comes before the child has become its program ends it: handlers
// are the parent's, and would swallow it. What the parent was told to ignore (nohup) stays so.
pid_t ForkGroup();
// In the child: standard input, output and error, and the program. Why that cannot be is said
// on `error`; the exit code is then 127.
[[noreturn]] void Become(const std::vector<std::string>& command, int in, int out, int error);

}  // namespace mlxcomm::ctl
