#include "client/ctl/launch/child_process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "proto/system/blocked_signals.h"

namespace mlxcomm::ctl {

pid_t ForkGroup() {
  pid_t child = -1;
  int why = 0;
  {
    const BlockedSignals blocked;
    child = ::fork();
    why = errno;
    if (child == 0) {
      ::setpgid(0, 0);
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        struct sigaction action{};
        ::sigaction(signal, nullptr, &action);
        if (action.sa_handler != SIG_IGN) std::signal(signal, SIG_DFL);
      }
      std::signal(SIGPIPE, SIG_DFL);  // Ours is ignored.
    } else if (child > 0) {
      ::setpgid(child, child);  // The child does so, too; the second call fails harmlessly.
    }
  }
  errno = why;  // A handler that ran in the meantime may have changed it.
  return child;
}

void Become(const std::vector<std::string>& command, int in, int out, int error) {
  if (in >= 0) ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "mlxcommctl: cannot start %s: %s\n", arguments[0], std::strerror(errno));
  ::_exit(127);
}

}  // namespace mlxcomm::ctl
