// Ends ranks that launch, or its agent on another host, has left behind: a process that is killed
// itself (SIGKILL, no memory) cannot end them. It is a process of its own, `mlxcommctl
// rank-keeper`, that learns by a pipe which process groups there are; when the pipe ends, it ends
// those that are left.
//
// Owner: local_ranks. Thread: main. Memory: in the keeper a word for each group.
#pragma once

#include <sys/types.h>

#include <string>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::ctl {

class RankKeeper {
 public:
  RankKeeper() = default;
  ~RankKeeper();  // Processes that still run may live on.

  // False: errno says why.
  bool Start(const std::string& own_path);
  void Add(pid_t group) { Notify(group, true); }
  void Remove(pid_t group) { Notify(group, false); }

 private:
  void Notify(pid_t group, bool is_there);

  pid_t pid_ = -1;
  FileDescriptor to_;
  bool said_lost_ = false;
};

// The keeper itself. Its exit code is not used.
int RunRankKeeper();

}  // namespace mlxcomm::ctl
