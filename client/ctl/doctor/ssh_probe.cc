#include "client/ctl/doctor/ssh_probe.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/ctl/launch/ssh_command.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kAtOnceMax = 32;
constexpr int kSshFailed = 255;  // ssh's exit code for its own failures.
constexpr int kNoDaemon = 3;     // mlxcommctl's exit code (cli/output.h).
constexpr std::size_t kTextBytesMax = 400;
constexpr std::size_t kLinesMax = 4;

std::string Bounded(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text).substr(0, kTextBytesMax);
  return MakePrintable(std::string(text));
}

// Keeps the last lines: the first may be a banner, or output of the user's shell.
std::string LastLines(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, absl::ByAnyChar("\r\n"))) {
    if (const std::string one = Bounded(line); !one.empty()) lines.push_back(one);
  }
  if (lines.size() > kLinesMax) lines.erase(lines.begin(), lines.end() - kLinesMax);
  return absl::StrJoin(lines, "\n");
}

struct Complaint {
  absl::string_view words;
  SshAnswer answer;
};

// Messages of OpenSSH and of operating systems.
constexpr Complaint kComplaints[] = {
    {"Could not resolve hostname", SshAnswer::kNameUnknown},
    {"Host key verification failed", SshAnswer::kKeyUnknown},
    {"Permission denied (", SshAnswer::kDenied},
    {"Too many authentication failures", SshAnswer::kDenied},
    {"No more authentication methods to try", SshAnswer::kDenied},
    {"Connection refused", SshAnswer::kRefused},
    {"timed out", SshAnswer::kNoAnswer},
    {"No route to host", SshAnswer::kNoRoute},
    {"Network is unreachable", SshAnswer::kNoAnswer},
    {"Host is down", SshAnswer::kNoAnswer},
};

// The last message explains why ssh ended.
SshAnswer WhyNot(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  std::ranges::reverse(lines);
  for (const absl::string_view line : lines) {
    for (const Complaint& complaint : kComplaints) {
      if (!absl::StrContains(line, complaint.words)) continue;
      const bool changed = complaint.answer == SshAnswer::kKeyUnknown &&
                           absl::StrContains(text, "IDENTIFICATION HAS CHANGED");
      return changed ? SshAnswer::kKeyChanged : complaint.answer;
    }
  }
  return SshAnswer::kFailed;
}

// Takes a line that begins with `word` from `rest`; `text` is what follows the word. False: no such line.
bool TakeLine(absl::string_view word, absl::string_view& rest, absl::string_view& text) {
  if (!absl::StartsWith(rest, word)) return false;
  const std::size_t end = rest.find('\n');
  if (end == absl::string_view::npos) return false;
  text = rest.substr(word.size(), end - word.size());
  rest.remove_prefix(end + 1);
  return true;
}

// Reads "0 0.1.0", or several lines if the program does not run.
void ReadVersion(absl::string_view& rest, SshHostFacts& facts) {
  if (!absl::StartsWith(rest, kProbeVersion)) return;
  const std::size_t next = rest.find(absl::StrCat("\n", kProbeStatus));
  absl::string_view reported = rest.substr(0, next);
  reported.remove_prefix(absl::string_view(kProbeVersion).size());
  rest.remove_prefix(next == absl::string_view::npos ? rest.size() : next + 1);
  const std::size_t space = reported.find(' ');
  const absl::string_view code = reported.substr(0, space);
  reported = space == absl::string_view::npos ? "" : reported.substr(space + 1);
  if (code == "0") {
    facts.version = Bounded(reported);
  } else {
    facts.version_message = absl::StrCat("ended with ", Bounded(code), "\n", LastLines(reported));
  }
}

void ReadStatus(absl::string_view rest, SshHostFacts& facts) {
  absl::string_view code_text;
  int code = 0;
  if (!TakeLine(kProbeStatus, rest, code_text) || !absl::SimpleAtoi(code_text, &code)) {
    facts.daemon_message = "its answer was cut off";
    return;
  }
  if (code != 0) {
    // Skip the same failure as JSON (CommandFailed).
    const std::size_t as_json = rest.find("\n{\"error\":");
    facts.daemon_message = LastLines(rest.substr(0, as_json));
    if (code != kNoDaemon) absl::StrAppend(&facts.daemon_message, "\nended with ", code);
    return;
  }
  facts.daemon_answers = true;
  v1::StatusReply reply;
  google::protobuf::util::JsonParseOptions format;
  format.ignore_unknown_fields = true;  // Another release may report more.
  if (!google::protobuf::util::JsonStringToMessage(std::string(rest), &reply, format).ok()) return;
  facts.cluster = Bounded(reply.cluster());
  facts.node = Bounded(reply.node());
  if (reply.nodes_size() > 0) facts.node_id = Bounded(reply.nodes(0).id());
}

}  // namespace

SshHostFacts ReadSshProbe(const std::string& host, const absl::StatusOr<ProgramOutput>& output) {
  SshHostFacts facts;
  facts.host = host;
  if (!output.ok()) {
    facts.message = Bounded(output.status().message());
    if (absl::IsNotFound(output.status()) || absl::IsUnavailable(output.status()))
      facts.answer = SshAnswer::kNoSsh;
    if (absl::IsDeadlineExceeded(output.status()) || absl::IsAborted(output.status()))
      facts.answer = SshAnswer::kNoAnswer;
    return facts;
  }
  const std::string begins = absl::StrCat(kProbeBegins, "\n");
  const std::size_t begin = output->text.find(begins);
  if (begin == std::string::npos) {
    const bool by_ssh = output->exit_code == kSshFailed;
    facts.answer = by_ssh ? WhyNot(output->text) : SshAnswer::kFailed;
    facts.message = LastLines(output->text);
    if (!by_ssh || facts.message.empty())
      absl::StrAppend(&facts.message, facts.message.empty() ? "" : "\n", "ended ",
                      HowEnded(output->exit_code));
    return facts;
  }
  facts.answer = SshAnswer::kReached;
  absl::string_view rest = absl::string_view(output->text).substr(begin + begins.size());
  absl::string_view text;
  if (TakeLine(kProbePath, rest, text)) {
    facts.path = Bounded(text);
    ReadVersion(rest, facts);
    ReadStatus(rest, facts);
  } else if (TakeLine(kProbeNone, rest, text)) {
    facts.searched = Bounded(text);
  }
  return facts;
}

std::vector<SshHostFacts> ProbeHosts(const std::vector<std::string>& hosts,
                                     const SshProbeOptions& options) {
  std::vector<SshHostFacts> facts(hosts.size());
  const std::string asked = ProbeCommand(options.own_path, options.socket_path);
  const ProgramOptions how{
      .timeout_ns = options.timeout_ns, .with_errors = true, .until_exit = true};
  std::atomic<std::size_t> next{0};
  const auto probe = [&] {
    for (std::size_t i = next++; i < hosts.size(); i = next++) {
      std::vector<std::string> words = options.command;
      words.push_back(hosts[i]);
      words.push_back(asked);
      facts[i] = ReadSshProbe(hosts[i], RunProgram(words, how));
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(hosts.size(), kAtOnceMax); ++i) threads.emplace_back(probe);
  for (std::thread& thread : threads) thread.join();
  return facts;
}

}  // namespace mlxcomm::ctl
