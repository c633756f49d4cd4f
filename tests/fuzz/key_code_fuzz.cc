// Key codes: the text that people type, paste or pipe into `mlxcommctl cluster join`, and the file
// from which the daemon and mlxcommctl read the cluster's key.
//
// Hostile: the text of a code, and the bytes of a key file.
// Read by: ReadKeyCode, IsClusterName (proto/key/key_code.h), ReadKeyFile (proto/key/key_file.h).
//
// Must hold:
//   - an accepted code encodes to one that reads the same, and that is encoded alike;
//   - every key with a valid cluster name encodes to a code that reads the same, also in small
//     letters, without hyphens, with blanks, and with O for 0 and I or L for 1;
//   - the reason of a refusal says nothing about the code: another code that is wrong at the same
//     place is refused in the same words;
//   - the two keys of an accepted file differ, its name is valid for a cluster, and written as
//     key_file.h says it reads the same.
//
// Script: the first byte selects one of the three, the rest is the code; a key and a name; or the
// file. The file is a real one, because its owner and mode are checked; its folder is in memory if
// possible.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "proto/key/key_code.h"
#include "proto/key/key_file.h"
#include "tests/fuzz/fuzz.h"

namespace mlxcomm {
namespace {

using fuzz::Input;

bool IsSame(const absl::StatusOr<NamedKey>& read, const NamedKey& key) {
  return read.ok() && read->cluster == key.cluster && read->key == key.key;
}

// Another character of the same kind: one that is valid in codes is replaced by a valid one.
char Otherwise(char c) {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const char upper = absl::ascii_toupper(static_cast<unsigned char>(c));
  if (upper == 'O' || upper == 'I' || upper == 'L') return '7';
  const std::size_t at = kAlphabet.find(upper);
  return at == std::string_view::npos ? c : kAlphabet[(at + 1) % kAlphabet.size()];
}

void CheckSaysNothing(const std::string& code, const absl::Status& refused) {
  std::string other = code;
  const std::size_t colon = code.rfind(':');
  for (std::size_t i = colon == std::string::npos ? 0 : colon + 1; i < other.size(); ++i) {
    other[i] = Otherwise(other[i]);
  }
  const absl::StatusOr<NamedKey> read = ReadKeyCode(other);
  if (read.ok()) return;  // The other one is right by chance, or 64 hexadecimal digits.
  MLXCOMM_MUST(read.status() == refused,
               "a refusal depends on nothing but what is wrong: " + std::string(refused.message()));
}

void CheckCode(const std::string& code) {
  const absl::StatusOr<NamedKey> read = ReadKeyCode(code);
  if (!read.ok()) {
    MLXCOMM_MUST(absl::IsInvalidArgument(read.status()), "a wrong code is the caller's mistake");
    return CheckSaysNothing(code, read.status());
  }
  MLXCOMM_MUST(read->cluster.empty() || IsClusterName(read->cluster),
               "a name that was read is one that a cluster may have");
  const std::string written = WriteKeyCode(*read);
  const absl::StatusOr<NamedKey> again = ReadKeyCode(written);
  MLXCOMM_MUST(IsSame(again, *read), "what is encoded reads the same");
  MLXCOMM_MUST(WriteKeyCode(*again) == written, "what is read is encoded alike");
}

// As people copy a code by hand: see the rules in key_code.h.
std::string WrittenCarelessly(const std::string& code, std::uint64_t how) {
  const std::size_t colon = code.rfind(':');
  const std::size_t begin = colon == std::string::npos ? 0 : colon + 1;
  std::string text = code.substr(0, begin);
  for (std::size_t i = begin; i < code.size(); ++i, how = how >> 1 | how << 63) {
    const bool change = (how & 1) != 0;
    const char c = code[i];
    if (!change) {
      text += c;
    } else if (c == '0') {
      text += 'o';
    } else if (c == '1') {
      text += (how & 2) != 0 ? 'l' : 'I';
    } else if (c == '-') {
      text += (how & 2) != 0 ? " " : "";
    } else {
      text += absl::ascii_tolower(static_cast<unsigned char>(c));
    }
  }
  return " " + text + "\n";
}

std::string Hex(const ClusterKey& key) {
  std::string text;
  AppendHex(key, text);
  return text;
}

void CheckKey(Input& input) {
  const NamedKey key{"", ClusterKey(input.Take<ClusterKey::Bytes>())};
  const auto how = input.Take<std::uint64_t>();
  const NamedKey named{input.TakeRest(), key.key};
  ClusterKey::Bytes bytes{};
  MLXCOMM_MUST(ReadHex(Hex(key.key), bytes) && ClusterKey(bytes) == key.key,
               "hexadecimal digits read as they were written");
  MLXCOMM_MUST(IsSame(ReadKeyCode(WrittenCarelessly(WriteKeyCode(key), how)), key),
               "a code without a name reads as it was written");
  if (!IsClusterName(named.cluster)) return;
  MLXCOMM_MUST(IsSame(ReadKeyCode(WrittenCarelessly(WriteKeyCode(named), how)), named),
               "a code with a name reads as it was written");
}

// Removed at the end of the program.
class File {
 public:
  File() : path_(fuzz::TemporaryFolder() + "/key-" + std::to_string(::getpid())) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file_ < 0) std::abort();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    ::close(file_);
    ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  void Put(const std::string& text) const {
    if (::ftruncate(file_, 0) != 0 ||
        ::pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
      std::abort();
    }
  }

 private:
  std::string path_;
  int file_ = -1;
};

void CheckFile(const std::string& text) {
  static const File file;
  file.Put(text);
  const absl::StatusOr<ClusterKeys> keys = ReadKeyFile(file.path());
  if (!keys.ok()) {
    MLXCOMM_MUST(keys.status().message().find(file.path()) != std::string_view::npos,
                 "a refusal names the file");
    return;
  }
  MLXCOMM_MUST(!keys->previous.has_value() || !(*keys->previous == keys->current),
               "the previous key is another one");
  MLXCOMM_MUST(keys->cluster.empty() || IsClusterName(keys->cluster),
               "a file's name is one that a cluster may have");
  std::string written = keys->cluster.empty() ? "" : "cluster " + keys->cluster + "\n";
  written += Hex(keys->current) + "\n";
  if (keys->previous.has_value()) written += Hex(*keys->previous) + "\n";
  file.Put(written);
  const absl::StatusOr<ClusterKeys> again = ReadKeyFile(file.path());
  MLXCOMM_MUST(again.ok() && *again == *keys, "a file reads as it was written");
}

}  // namespace
}  // namespace mlxcomm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  mlxcomm::fuzz::Input input(data, bytes);
  switch (input.TakeUpTo(2)) {
    case 0: mlxcomm::CheckCode(input.TakeRest()); break;
    case 1: mlxcomm::CheckKey(input); break;
    default: mlxcomm::CheckFile(input.TakeRest());
  }
  return 0;
}
