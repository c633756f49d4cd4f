#include "client/ctl/firstlight/followed_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "client/ctl/launch/child_process.h"

namespace mlxcomm::ctl {

FollowedProgram::FollowedProgram(const std::vector<std::string>& words) {
  FileDescriptor its_output;
  if (!MakePipe(output_, its_output)) return;
  const FileDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  child_ = ForkGroup();
  if (child_ == 0) Become(words, nothing.get(), its_output.get(), nothing.get());
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

FollowedProgram::~FollowedProgram() {
  if (child_ <= 0) return;
  ::kill(-child_, SIGKILL);
  output_.Reset();
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::vector<std::string> FollowedProgram::TakeLines() {
  char bytes[16384];
  while (output_.valid()) {
    const ssize_t count = ::read(output_.get(), bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    if (count == 0) {
      output_.Reset();
      break;
    }
    unread_.append(bytes, static_cast<std::size_t>(count));
    if (unread_.size() > kLineBytesMax && unread_.find('\n') == std::string::npos) unread_.clear();
  }
  std::vector<std::string> lines;
  for (std::size_t end; (end = unread_.find('\n')) != std::string::npos;) {
    lines.push_back(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
  return lines;
}

}  // namespace mlxcomm::ctl
