// Ends the ranks of a launch, or of its agent on another host, that was killed (SIGKILL, out of
// memory). The process `mlxcommctl rank-keeper` gets the ranks' process groups through a pipe, and
// ends those that are left when the pipe closes.
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
  ~RankKeeper();  // Ends the keeper, not the ranks.

  // If false, errno is set.
  bool Start(const std::string& own_path);
  void Add(pid_t group) { Notify(group, true); }
  void Remove(pid_t group) { Notify(group, false); }

 private:
  void Notify(pid_t group, bool is_there);

  pid_t pid_ = -1;
  FileDescriptor to_;
  bool has_failed_ = false;
};

}  // namespace mlxcomm::ctl
