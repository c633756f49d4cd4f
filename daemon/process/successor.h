// The program that takes this daemon's place, after an upgrade or a change of the configuration: the same
// process runs another program (exec), so that systemd or launchd sees no end. That happens once no client
// is left, and the door stays open (intake/socket_file.h): processes that connect in between wait.
//
//   SIGUSR2 ─▶ Examine ─▶ (Loop: until idle) ─▶ Examine ─▶ the daemon ends ─▶ Become ─exec─▶ TakeListenSocket
//                 └─ unfit: refused, the old one goes on          └─ unfit by now: likewise
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
  // Before the working directory changes: the program is what lies at the path by which this one was
  // started, with the same arguments.
  Successor(int argc, char** argv);

  // Runs it for what it says of itself and of the configuration. FAILED_PRECONDITION: what is wrong, and the
  // remedy.
  absl::StatusOr<NextProgram> Examine() const;
  // Returns only where the system refuses. Other threads have ended.
  absl::Status Become(intake::ListenSocket listen_socket) const;

 private:
  std::string program_;
  std::vector<std::string> arguments_;
};

// What `Examine` reads, on the side of the program that is asked.
std::string DescribeAsSuccessor(const std::string& trouble);

// What the program before this one has left open; not valid: there was none.
intake::ListenSocket TakeListenSocket();

}  // namespace mlxcomm
