#include "client/ctl/cli/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <ctime>

#include "proto/system/small_file.h"

namespace mlxcomm::ctl {

bool WriteNewFile(const std::string& path, const std::string& text) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return file.valid() && WriteAll(file, text) && ::close(file.Release()) == 0;
}

std::string TimeForName() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return std::string(text, size);
}

}  // namespace mlxcomm::ctl
