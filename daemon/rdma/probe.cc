#include "daemon/rdma/probe.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/system/program.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

constexpr std::size_t kAnswerBytesMax = 64 * 1024;
constexpr char kEnd[] = "end";
// The process exits after this long even if its parent does not kill it.
constexpr unsigned kAliveSecondsMax = 120;
// States of a device's port.
constexpr char kActive[] = "1";
constexpr char kNotOpened[] = "-";
constexpr char kNoLibrary[] = "none: ";  // Prefix of the reason if no library was found.

// A probe that was killed and has not exited.
std::atomic<pid_t> undead{0};

// Makes and destroys one queue pair, because that has been seen to hang, too.
void Try(Library& library, const Limits& limits, DeviceFacts& facts) {
  if (!facts.active || facts.gids.empty()) return;
  const auto device = library.Open(facts.name, limits);
  if (!device.ok()) {
    facts.active = false;
    facts.state = std::string(device.status().message());
    return;
  }
  const QueuePairShape shape{limits.service, limits.message_bytes, kMessagesMin};
  const auto pair = (*device)->MakeQueuePair(shape, facts.gids.front());
  if (!pair.ok()) facts.state = std::string(pair.status().message());
}

void Write(std::FILE* to, const DeviceFacts& facts) {
  const char* const port = !facts.opened ? kNotOpened : facts.active ? kActive : "0";
  std::fprintf(to, "device\t%s\t%s\t%s\n", MakePrintable(facts.name).c_str(), port,
               MakePrintable(facts.state).c_str());
  for (const Gid& gid : facts.gids) {
    const absl::string_view bytes(reinterpret_cast<const char*>(gid.data()), gid.size());
    std::fprintf(to, "gid\t%s\n", absl::BytesToHexString(bytes).c_str());
  }
}

bool ReadLine(absl::string_view line, std::vector<DeviceFacts>& devices) {
  const std::vector<std::string> words = absl::StrSplit(line, '\t');
  if (words[0] == "device" && words.size() == 4) {
    DeviceFacts& facts = devices.emplace_back();
    facts.name = words[1];
    facts.opened = words[2] != kNotOpened;
    facts.active = words[2] == kActive;
    facts.state = words[3];
    return true;
  }
  const bool is_gid = words[0] == "gid" && words.size() == 2 && words[1].size() == 32 &&
                      std::ranges::all_of(words[1], absl::ascii_isxdigit);
  if (!is_gid || devices.empty()) return false;
  const char* digits = words[1].data();
  for (auto& byte : devices.back().gids.emplace_back()) {
    std::from_chars(digits, digits + 2, byte, 16);
    digits += 2;
  }
  return true;
}

absl::Status Reason(absl::string_view text) {
  return absl::ConsumePrefix(&text, kNoLibrary) ? absl::NotFoundError(text)
                                                : absl::UnavailableError(text);
}

absl::StatusOr<std::vector<DeviceFacts>> Parse(const ProgramOutput& answer) {
  std::vector<DeviceFacts> devices;
  for (const absl::string_view line : absl::StrSplit(answer.text, '\n')) {
    if (line == kEnd) return devices;
    if (line.substr(0, 4) == "why\t") return Reason(line.substr(4));
    if (!line.empty() && !ReadLine(line, devices)) break;
  }
  return absl::UnavailableError(answer.exit_code > 128
                                    ? "the RDMA driver crashed the process that queried it, " +
                                          HowEnded(answer.exit_code)
                                    : "the process that queries the RDMA driver did not answer");
}

}  // namespace

int RunProbe(const std::string& library, const Limits& limits) {
  ::alarm(kAliveSecondsMax);
  // Anything that the library prints goes to stderr.
  std::FILE* const answer = ::fdopen(::dup(STDOUT_FILENO), "w");
  if (answer == nullptr || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  auto loaded = LoadLibrary(library);
  absl::StatusOr<std::vector<DeviceFacts>> devices =
      loaded.ok() ? (*loaded)->ListDevices()
                  : absl::NotFoundError(absl::StrCat(kNoLibrary, loaded.status().message()));
  if (!devices.ok()) {
    std::fprintf(answer, "why\t%s\n",
                 MakePrintable(std::string(devices.status().message())).c_str());
  } else {
    for (DeviceFacts& facts : *devices) {
      Try(**loaded, limits, facts);
      Write(answer, facts);
    }
  }
  std::fprintf(answer, "%s\n", kEnd);
  return std::fclose(answer) == 0 ? 0 : 1;
}

absl::StatusOr<std::vector<DeviceFacts>> Probe(const std::string& program,
                                               const std::string& library,
                                               std::uint64_t timeout_ns) {
  if (const pid_t last = undead.load(); last != 0) {
    if (::waitpid(last, nullptr, WNOHANG) == 0) {
      return absl::DeadlineExceededError("the RDMA driver still does not answer");
    }
    undead.store(0);
  }
  ProgramOutput answer;
  const ProgramOptions options{
      .timeout_ns = timeout_ns, .own_errors = true, .killed_above = kAnswerBytesMax};
  const absl::Status done = RunProgram({program, kProbeArgument, library}, options, answer);
  if (answer.undead != 0) undead.store(answer.undead);
  if (absl::IsOutOfRange(done)) {
    return absl::UnavailableError("the process that queries the RDMA driver printed too much");
  }
  const bool in_time = !absl::IsDeadlineExceeded(done) && !absl::IsAborted(done);
  if (in_time && !done.ok()) {
    return absl::UnavailableError(absl::StrCat("RDMA cannot be probed: ", done.message()));
  }
  // Unloading the library may hang after the answer is complete.
  if (in_time || absl::EndsWith(answer.text, absl::StrCat(kEnd, "\n"))) return Parse(answer);
  return absl::DeadlineExceededError(
      absl::StrCat("the RDMA driver does not answer within ", timeout_ns / 1'000'000, " ms"));
}

}  // namespace mlxcomm::rdma
