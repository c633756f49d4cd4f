#include "daemon/process/successor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/platform/machine.h"
#include "daemon/process/config_file.h"
#include "proto/system/program.h"
#include "proto/types/plain_text.h"
#include "proto/types/version.h"
#include "proto/wire/versions.h"

namespace mlxcomm {
namespace {

constexpr char kListenSocketVariable[] = "MLXCOMMD_DOOR";
constexpr char kFits[] = "mlxcommd fits";
constexpr std::uint64_t kAnswerNs = 10'000'000'000;

// exec keeps unmarked descriptors, and a library may have opened some without the mark.
void MarkAllOthers(const intake::ListenSocket& listen_socket) {
  const long most = std::min(::sysconf(_SC_OPEN_MAX), 65536L);
  for (int descriptor = 3; descriptor < most; ++descriptor) {
    const bool stays =
        descriptor == listen_socket.socket.get() || descriptor == listen_socket.lock.get();
    const int flags = ::fcntl(descriptor, F_GETFD);
    if (flags < 0) continue;
    ::fcntl(descriptor, F_SETFD, stays ? flags & ~FD_CLOEXEC : flags | FD_CLOEXEC);
  }
}

}  // namespace

Successor::Successor(int argc, char** argv) : arguments_(argv + 1, argv + argc) {
  const std::string called = argv[0];
  std::error_code error;
  // Opened by path: after an upgrade it is another file.
  program_ = called.find('/') != std::string::npos
                 ? std::filesystem::absolute(called, error).string()
                 : platform::OwnExecutable();
}

absl::StatusOr<NextProgram> Successor::Examine() const {
  std::vector<std::string> words = arguments_;
  words.insert(words.begin(), program_);
  words.emplace_back("--examined");
  const auto answer = RunProgram(words, {.timeout_ns = kAnswerNs, .own_errors = true});
  if (absl::IsDeadlineExceeded(answer.status()) || absl::IsAborted(answer.status())) {
    return absl::FailedPreconditionError(absl::StrCat(program_, " did not report within ",
                                                      kAnswerNs / 1'000'000'000,
                                                      " s whether it can take over"));
  }
  if (!answer.ok()) return absl::FailedPreconditionError(answer.status().message());
  const std::vector<std::string> lines = absl::StrSplit(answer->text, '\n');
  const std::string& first = lines.front();
  if (first != kFits || lines.size() < 3) {
    return absl::FailedPreconditionError(absl::StrCat(
        program_, first.empty()
                      ? " did not report whether it can take over (" + HowEnded(answer->exit_code) +
                            "): releases older than this one cannot take over"
                      : ": " + MakePrintable(first)));
  }
  const std::vector<std::string> ends = absl::StrSplit(lines[2], " to ");  // wire::TextOf
  std::uint32_t oldest = 0;
  std::uint32_t newest = 0;
  if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &oldest) ||
      !absl::SimpleAtoi(ends.back(), &newest) || oldest == 0 || newest < oldest ||
      newest > UINT16_MAX) {
    return absl::FailedPreconditionError(
        absl::StrCat(program_, " reported no version of the protocol: ", MakePrintable(lines[2])));
  }
  return NextProgram{MakePrintable(lines[1]),
                     {static_cast<std::uint16_t>(oldest), static_cast<std::uint16_t>(newest)}};
}

int AnswerExamination(const absl::StatusOr<v1::DaemonConfig>& config) {
  absl::Status fits = config.status();
  if (fits.ok()) fits = CheckStateDirectory(config->state_directory());
  const std::string answer = fits.ok() ? absl::StrCat(kFits, "\n", kSoftwareVersion, "\n",
                                                      wire::TextOf(wire::SpokenVersions()), "\n")
                                       : absl::StrCat(fits.message(), "\n");
  return std::fputs(answer.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : 1;
}

absl::Status Successor::Become(intake::ListenSocket listen_socket) const {
  MarkAllOthers(listen_socket);
  ::setenv(kListenSocketVariable,
           absl::StrCat(listen_socket.socket.get(), ",", listen_socket.lock.get()).c_str(), 1);
  std::vector<std::string> words = {program_};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program_.c_str(), pointers.data());
  return absl::UnavailableError(
      absl::StrCat("cannot execute ", program_, ": ", std::strerror(errno)));
}

intake::ListenSocket TakeListenSocket() {
  intake::ListenSocket listen_socket;
  const char* const text = std::getenv(kListenSocketVariable);
  if (text == nullptr) return listen_socket;
  const auto take = [](const std::string& word) {
    int number = -1;
    if (!absl::SimpleAtoi(word, &number) || number < 3) return FileDescriptor();
    const int flags = ::fcntl(number, F_GETFD);
    if (flags < 0 || ::fcntl(number, F_SETFD, flags | FD_CLOEXEC) < 0) {
      return FileDescriptor();
    }
    return FileDescriptor(number);
  };
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  if (words.size() == 2) {
    listen_socket.socket = take(words[0]);
    listen_socket.lock = take(words[1]);
  }
  ::unsetenv(kListenSocketVariable);  // Not for the programs that this one starts.
  return listen_socket;
}

}  // namespace mlxcomm
