#include "proto/system/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace mlxcomm {

FileDescriptor OpenToRead(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

bool ReadAtMost(const FileDescriptor& file, std::size_t most, std::string& text) {
  constexpr std::size_t kPiece = 16 * 1024;
  text.clear();
  while (text.size() <= most) {
    const std::size_t had = text.size();
    text.resize(std::min(most + 1, had + kPiece));
    const ssize_t got = ::read(file.get(), text.data() + had, text.size() - had);
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
  }
  errno = EFBIG;
  return false;
}

std::string ReadFileText(const std::string& path, std::size_t most) {
  std::string text;
  ReadAtMost(OpenToRead(path), most, text);
  return text.substr(0, most);
}

bool WriteAll(const FileDescriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

bool WriteWhole(const std::string& path, std::string_view text, Placing placing, mode_t mode) {
  std::string fresh = path + ".XXXXXX";
  const FileDescriptor file(::mkstemp(fresh.data()));
  if (!file.valid()) return false;
  const bool written =
      WriteAll(file, text) && ::fchmod(file.get(), mode) == 0 && ::fsync(file.get()) == 0;
  // Unlike rename, a link never replaces a file.
  const auto place = placing == Placing::kReplace ? ::rename : ::link;
  const bool placed = written && place(fresh.c_str(), path.c_str()) == 0;
  const int why = errno;
  if (!placed || placing == Placing::kOnlyNew) ::unlink(fresh.c_str());
  errno = why;
  return placed;
}

}  // namespace mlxcomm
