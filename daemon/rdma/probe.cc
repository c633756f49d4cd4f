#include "daemon/rdma/probe.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/system/program.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

constexpr std::size_t kAnswerBytesMax = 128 * 1024;
constexpr char kEnd[] = "end\n";
// The process exits after this long even if its parent does not kill it.
constexpr unsigned kAliveSecondsMax = 120;

// A probe that was killed and has not exited.
std::atomic<pid_t> undead{0};

v1::TransportStatus Find(const std::string& library) {
  v1::TransportStatus found;
  const absl::StatusOr<std::vector<DeviceFacts>> devices = ListDevices(library);
  if (!devices.ok()) {
    found.set_reason(absl::IsNotFound(devices.status()) ? v1::LinkReason::no_library
                                                        : v1::LinkReason::driver_failed);
    found.set_detail(MakePrintable(std::string(devices.status().message())));
    return found;
  }
  for (const DeviceFacts& facts : *devices) {
    v1::TransportDevice& device = *found.add_devices();
    device.set_name(MakePrintable(facts.name));
    device.set_active(facts.active);
    device.set_state(MakePrintable(facts.state));
    if (!facts.opened) device.set_reason(v1::LinkReason::device_not_opened);
    for (const Gid& gid : facts.gids) device.add_gids(GidText(gid));
  }
  return found;
}

absl::StatusOr<v1::TransportStatus> Parse(const ProgramOutput& answer) {
  absl::string_view text = answer.text;
  v1::TransportStatus found;
  if (absl::ConsumeSuffix(&text, kEnd) &&
      google::protobuf::TextFormat::ParseFromString(std::string(text), &found)) {
    if (found.reason() == v1::LinkReason::none) return found;
    return found.reason() == v1::LinkReason::no_library ? absl::NotFoundError(found.detail())
                                                        : absl::UnavailableError(found.detail());
  }
  return absl::UnavailableError(answer.exit_code > 128
                                    ? "the RDMA driver crashed the process that queried it, " +
                                          HowEnded(answer.exit_code)
                                    : "the process that queries the RDMA driver did not answer");
}

}  // namespace

int RunProbe(const std::string& library) {
  ::alarm(kAliveSecondsMax);
  // Anything that the library prints goes to stderr.
  std::FILE* const answer = ::fdopen(::dup(STDOUT_FILENO), "w");
  if (answer == nullptr || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  std::string text;
  google::protobuf::TextFormat::PrintToString(Find(library), &text);
  std::fputs((text + kEnd).c_str(), answer);
  return std::fclose(answer) == 0 ? 0 : 1;
}

absl::StatusOr<v1::TransportStatus> Probe(const std::string& program, const std::string& library,
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
  if (in_time || absl::EndsWith(answer.text, kEnd)) return Parse(answer);
  return absl::DeadlineExceededError(
      absl::StrCat("the RDMA driver does not answer within ", timeout_ns / 1'000'000, " ms"));
}

}  // namespace mlxcomm::rdma
