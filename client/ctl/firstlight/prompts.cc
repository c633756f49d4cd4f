#include "client/ctl/firstlight/prompts.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "proto/system/program.h"

namespace mlxcomm::ctl {

Prompts::Prompts(std::string command, bool ask_nothing) : command_(std::move(command)) {
  if (!command_.empty()) {
    who_ = Who::kCommand;
  } else if (!ask_nothing && ::isatty(STDIN_FILENO) != 0) {
    who_ = Who::kPerson;
  }
}

bool Prompts::Ask(const std::string& name, const std::string& interface, const std::string& text,
                  std::uint64_t timeout_ns) {
  if (who_ == Who::kPerson) {
    Tell("\n>>> " + text + "\n    It is noticed by itself; s and Enter leaves it out.\n");
    return true;
  }
  if (who_ == Who::kNobody) return false;
  ProgramOptions options;
  options.timeout_ns = timeout_ns;
  const auto done = RunProgram({"sh", "-c", command_ + " \"$@\"", "sh", name, interface}, options);
  return done.ok() && done->exit_code == 0;
}

bool Prompts::IsSkipped() {
  if (who_ != Who::kPerson) return false;
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  if (::poll(&ready, 1, 0) != 1) return false;
  char line[256];
  const ssize_t count = ::read(STDIN_FILENO, line, sizeof line);
  return count <= 0 || line[0] == 's' || line[0] == 'S';
}

void Prompts::Tell(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace mlxcomm::ctl
