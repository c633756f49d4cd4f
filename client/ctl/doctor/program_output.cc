#include "client/ctl/doctor/program_output.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace mlxcomm::ctl {

std::string ReadFileText(const std::string& path, std::size_t bytes_max) {
  // A device or pipe with that name must not block us.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {};
  std::string text(bytes_max, '\0');
  std::size_t size = 0;
  while (size < bytes_max) {
    const ssize_t count = ::read(descriptor, text.data() + size, bytes_max - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
  text.resize(size);
  return text;
}

std::vector<std::string> ListFolder(const std::string& path) {
  constexpr std::size_t kNamesMax = 4096;
  std::vector<std::string> names;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && names.size() < kNamesMax) names.push_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mlxcomm::ctl
