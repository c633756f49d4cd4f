// The program that replaces this daemon after an upgrade or a change of the configuration, once no client is
// left. The same process executes it, so systemd or launchd sees no exit, and the listen socket stays open.
//
//   SIGUSR2 ─▶ Examine ─▶ (Loop: until idle) ─▶ Examine ─▶ the daemon ends ─▶ Become ─exec─▶ TakeListenSocket
//                 └─ unfit: refused, the old one stays            └─ now unfit: likewise
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/intake/socket_file.h"
#include "daemon/loop/loop.h"

namespace mlxcomm {

class Successor {
 public:
  // Call before the working directory changes: the program is the one at this one's path.
  Successor(int argc, char** argv);

  // Runs it to check itself and the configuration. FAILED_PRECONDITION: the fault and the remedy.
  absl::StatusOr<NextProgram> Examine() const;
  // Returns only if the system refuses. All other threads must have ended.
  absl::Status Become(intake::ListenSocket listen_socket) const;

 private:
  std::string program_;
  std::vector<std::string> arguments_;
};

// The output of the examined program, which Examine reads.
std::string DescribeAsSuccessor(const std::string& trouble);

// The listen socket that the previous program left open; not valid if there was none.
intake::ListenSocket TakeListenSocket();

}  // namespace mlxcomm
