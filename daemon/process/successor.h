// The program that takes this daemon's place after an upgrade or a change of the configuration. The
// same process executes it once no client is left, so that systemd or launchd sees no exit. The
// listen socket stays open (intake/socket_file.h): processes that connect in between wait.
//
//   SIGUSR2 ─▶ Examine ─▶ (Loop: until idle) ─▶ Examine again ─▶ Become ─exec─▶ TakeListenSocket
//                 └─ unfit, here or later: refused, the old one keeps running
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/intake/socket_file.h"
#include "daemon/loop/loop.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

class Successor {
 public:
  // Call it before the working directory changes: the program is the file at the path by which this
  // one was started, with the same arguments.
  Successor(int argc, char** argv);

  // Runs the program with --examined and reads its answer. FAILED_PRECONDITION: what is wrong, and
  // the remedy.
  absl::StatusOr<NextProgram> Examine() const;
  // Returns only if the system refuses. Other threads have ended.
  absl::Status Become(intake::ListenSocket listen_socket) const;

 private:
  std::string program_;
  std::vector<std::string> arguments_;
};

// Prints what `Examine` reads, in the examined program; returns the exit code.
int AnswerExamination(const absl::StatusOr<v1::DaemonConfig>& config);

// The listen socket that the previous program left open; not valid: there was none.
intake::ListenSocket TakeListenSocket();

}  // namespace mlxcomm
