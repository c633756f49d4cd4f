// Ctrl-C while an operation waits. Python only notes it until the evaluation returns, and
// that would be when the other ranks come; so it is seen here as well, handed on to who had
// it before, and the wait is given up.
//
// Where nobody handles SIGINT it ends the process, as ever.
//
// Owner: the process. Thread: any; the handler touches one atomic. Memory: that.
#pragma once

namespace mlxcomm::mpi {

// A wait, from before it begins to its end. The first of several forgets what came before.
class UnderWay {
 public:
  UnderWay();
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

int WasInterrupted(void* context);  // For mlxcomm_connect_options.

}  // namespace mlxcomm::mpi
