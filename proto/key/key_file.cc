#include "proto/key/key_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include <openssl/crypto.h>

#include "absl/strings/str_cat.h"
#include "proto/key/key_code.h"

namespace mlxcomm {
namespace {

constexpr char kClusterWord[] = "cluster ";
constexpr std::size_t kClusterWordBytes = sizeof kClusterWord - 1;
constexpr std::size_t kFileBytesMax = 4096;

// Quotes a path for a shell.
std::string Quoted(const std::string& path) {
  const bool plain =
      path.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%:,") ==
      std::string::npos;
  if (plain) return path;
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

template <typename... Why>
absl::Status Refused(const std::string& path, const Why&... why) {
  return absl::InvalidArgumentError(absl::StrCat("key_file ", path, ": ", why...));
}

// Takes an open file, so that the file that was checked is the file that is read.
absl::Status CheckIsPrivate(int file, const std::string& path) {
  struct stat facts{};
  if (::fstat(file, &facts) != 0) return Refused(path, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return Refused(path, "expected a regular file of this user");
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0) {
    return Refused(path, "it belongs to another user; fix it with: sudo chown ", ::geteuid(), " ",
                   Quoted(path));
  }
  if ((facts.st_mode & 077) != 0) {
    return Refused(path, "other users may read or write it; fix it with: chmod 600 ", Quoted(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterKeys> Parse(const std::string& text, const std::string& path) {
  std::string cluster;
  std::vector<ClusterKey> keys;
  constexpr char kExpected[] =
      "expected one or two lines of 64 hexadecimal digits (mlxcommctl cluster create makes such a "
      "file)";
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    ClusterKey::Bytes bytes{};
    if (ReadHex(line, bytes)) {
      keys.emplace_back(bytes);
      OPENSSL_cleanse(bytes.data(), bytes.size());
    } else if (line.starts_with(kClusterWord) && keys.empty() && cluster.empty() &&
               IsClusterName(line.substr(kClusterWordBytes))) {
      cluster = std::string(line.substr(kClusterWordBytes));
    } else {
      return Refused(path, kExpected);
    }
  }
  if (keys.empty() || keys.size() > 2) return Refused(path, kExpected);
  ClusterKeys found{keys[0], std::nullopt, std::move(cluster)};
  if (keys.size() == 2 && !(keys[1] == keys[0])) found.previous = keys[1];
  return found;
}

}  // namespace

std::string KeyFilePlace(bool is_root, const char* config_home, const char* home) {
  if (is_root) return "/etc/mlxcommd/key";
  if (config_home != nullptr && config_home[0] == '/') {
    return absl::StrCat(config_home, "/mlxcommd/key");
  }
  if (home == nullptr || home[0] != '/') return {};
  return absl::StrCat(home, "/.config/mlxcommd/key");
}

std::string DefaultKeyFile() {
  return KeyFilePlace(::geteuid() == 0, std::getenv("XDG_CONFIG_HOME"), std::getenv("HOME"));
}

absl::StatusOr<ClusterKeys> ReadKeyFile(const std::string& path) {
  const FileDescriptor file = OpenToRead(path);
  if (!file.valid() && errno == EACCES) {
    return Refused(path, std::strerror(errno), "; fix it with: sudo chown ", ::geteuid(), " ",
                   Quoted(path));
  }
  if (!file.valid() && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(
        "key_file ", path, ": ", std::strerror(errno),
        " (mlxcommctl cluster create makes one, cluster join copies another machine's)"));
  }
  if (!file.valid()) return Refused(path, std::strerror(errno));
  if (absl::Status status = CheckIsPrivate(file.get(), path); !status.ok()) return status;
  std::string text;
  const bool is_read = ReadAtMost(file, kFileBytesMax, text);
  if (!is_read && errno == EFBIG) {
    return Refused(path, "expected a few lines, found more than ", kFileBytesMax, " bytes");
  }
  if (!is_read) return Refused(path, std::strerror(errno));
  absl::StatusOr<ClusterKeys> keys = Parse(text, path);
  OPENSSL_cleanse(text.data(), text.size());
  return keys;
}

absl::Status WriteKeyFile(const std::string& path, const ClusterKeys& keys, Placing placing) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const mode_t before = ::umask(077);
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  ::umask(before);
  if (error) return Refused(path, "cannot be made: ", error.message());
  std::string text = keys.cluster.empty() ? "" : absl::StrCat(kClusterWord, keys.cluster, "\n");
  // Reserve space for both keys: growing the string would leave copies of them in memory.
  text.reserve(text.size() + 2 * (2 * keys.current.bytes().size() + 1));
  AppendHex(keys.current, text);
  text.push_back('\n');
  if (keys.previous.has_value()) {
    AppendHex(*keys.previous, text);
    text.push_back('\n');
  }
  const bool written = WriteWhole(path, text, placing);
  const int why = errno;
  OPENSSL_cleanse(text.data(), text.size());
  if (written) return absl::OkStatus();
  if (placing == Placing::kOnlyNew && why == EEXIST)
    return absl::AlreadyExistsError(absl::StrCat(path, " already has a key"));
  return Refused(path, "cannot be written: ", std::strerror(why));
}

}  // namespace mlxcomm
