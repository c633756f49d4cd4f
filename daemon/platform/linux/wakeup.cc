#include "daemon/platform/wakeup.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace mlxcomm::platform {

Wakeup::Wakeup() : reader_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!reader_.valid()) std::abort();
}

void Wakeup::Ring() {
  const std::uint64_t one = 1;
  while (::write(reader_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Wakeup::Drain() {
  std::uint64_t count = 0;
  while (::read(reader_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace mlxcomm::platform
