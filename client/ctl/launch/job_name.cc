#include "client/ctl/launch/job_name.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "client/ctl/cli/installed_files.h"
#include "proto/queue/dial.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr unsigned kTriesMax = 1000;
constexpr std::size_t kNameBytesMax = 200;  // The daemon's limit.

// Locks the name in the folder of the private daemon's socket, which only this user can write. Not
// valid: another launch holds the name, or the folder is missing.
FileDescriptor Hold(const std::string& folder, const std::string& name) {
  FileDescriptor file(::open((folder + "/launch-" + name + ".lock").c_str(),
                             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.Reset();
  return file;
}

std::string RandomSuffix() {
  constexpr std::string_view kLetters =
      "abcdefghijkmnpqrstuvwxyz23456789";  // None looks like another.
  std::random_device random;
  std::string suffix;
  for (int i = 0; i < 4; ++i) suffix += kLetters[random() % kLetters.size()];
  return suffix;
}

bool IsOwn(const std::string& folder) {
  struct stat facts{};
  ::mkdir(folder.c_str(), 0700);
  return ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid();
}

}  // namespace

JobName JobName::Claim(const std::string& base, const v1::StatusReply& status, bool has_others) {
  JobName name;
  if (has_others || status.nodes_size() > 1) {
    name.text_ = base + "-" + RandomSuffix();
    return name;
  }
  const std::string folder = FolderOf(queue::PrivateSocketPath());
  const bool may_hold = IsOwn(folder);
  for (unsigned number = 1; may_hold && number <= kTriesMax; ++number) {
    name.text_ = number == 1 ? base : base + "-" + std::to_string(number);
    const auto user = std::ranges::find(status.jobs(), name.text_, &v1::JobStatus::name);
    if (user != status.jobs().end()) continue;
    name.held_ = Hold(folder, name.text_);
    if (name.held_.valid()) return name;
  }
  name.text_ = base + "-" + std::to_string(::getpid());
  return name;
}

std::string WhyNoJobName(const std::string& name) {
  if (!name.empty() && name.size() <= kNameBytesMax && IsPlainText(name) &&
      name.find('/') == std::string::npos) {
    return {};
  }
  return "expected a name of 1 to " + std::to_string(kNameBytesMax) +
         " bytes of UTF-8 without \"/\" and control characters" +
         (name.empty() ? ", got nothing" : ", got \"" + MakePrintable(name.substr(0, 60)) + "\"");
}

}  // namespace mlxcomm::ctl
