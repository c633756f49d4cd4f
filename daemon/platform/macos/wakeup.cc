#include "daemon/platform/wakeup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace mlxcomm::platform {

Wakeup::Wakeup() {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  for (const int end : ends) {
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  reader_.Reset(ends[0]);
  writer_.Reset(ends[1]);
}

void Wakeup::Ring() {
  const char byte = 1;
  while (::write(writer_.get(), &byte, 1) < 0 && errno == EINTR) {
  }
}

void Wakeup::Drain() {
  char bytes[64];
  while (::read(reader_.get(), bytes, sizeof bytes) > 0) {
  }
}

}  // namespace mlxcomm::platform
