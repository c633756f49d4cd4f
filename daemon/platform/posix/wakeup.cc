#include "daemon/platform/wakeup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace mlxcomm::platform {

absl::StatusOr<Wakeup> Wakeup::Create() {
  Wakeup wakeup{Empty{}};
  if (!MakePipe(wakeup.reader_, wakeup.writer_)) {
    return absl::ResourceExhaustedError("no descriptor is left; raise the limit of open files");
  }
  for (const FileDescriptor* end : {&wakeup.reader_, &wakeup.writer_}) {
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  return wakeup;
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
