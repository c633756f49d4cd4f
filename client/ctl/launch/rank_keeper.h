// Ends ranks that launch, or its agent on another host, has left alone: who is killed (SIGKILL,
// no memory) can end nobody. It is a process of its own, `mlxcommctl rank-keeper`, that is told
// by a pipe which process groups there are; when the pipe ends, it ends those that are left.
//
// Owner: local_ranks. Thread: main. Memory: in the keeper a word for each group.
#pragma once

#include <sys/types.h>

#include <string>

namespace mlxcomm::ctl {

class RankKeeper {
 public:
  RankKeeper() = default;
  ~RankKeeper();  // What still runs may live on.
  RankKeeper(const RankKeeper&) = delete;
  RankKeeper& operator=(const RankKeeper&) = delete;

  // False: errno says why.
  bool Start(const std::string& own_path);
  void Add(pid_t group);
  void Remove(pid_t group);

 private:
  void Tell(pid_t group, bool is_there);

  pid_t pid_ = -1;
  int to_ = -1;
  bool said_lost_ = false;
};

// The keeper itself. Nobody looks at its exit code.
int RunRankKeeper();

}  // namespace mlxcomm::ctl
