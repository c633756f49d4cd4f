#include "daemon/platform/wakeup.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace mlxcomm::platform {

absl::StatusOr<Wakeup> Wakeup::Create() {
  Wakeup wakeup{Empty{}};
  wakeup.reader_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.reader_.valid()) {
    return absl::ResourceExhaustedError("no descriptor is left; raise the limit of open files");
  }
  return wakeup;
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
