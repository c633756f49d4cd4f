#include "proto/queue/presence.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace mlxcomm::queue {

std::string PresenceFile(const std::string& socket_path) { return socket_path + ".running"; }

// A shared lock, so that processes that look at the same time do not take each other for the
// daemon.
bool IsPresent(const std::string& socket_path) {
  const int file =
      ::open(PresenceFile(socket_path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool is_held = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return is_held;
}

}  // namespace mlxcomm::queue
