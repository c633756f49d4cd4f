#include "client/ctl/launch/ssh_host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/launch/child_process.h"
#include "client/ctl/launch/ssh_command.h"
#include "proto/system/program.h"
#include "proto/types/plain_text.h"
#include "proto/types/version.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kTextLineBytesMax = 8192;
constexpr std::size_t kLastTextBytesMax = 4096;
constexpr std::size_t kReportBytesMax = 2000;  // Longer messages of an agent are cut.
// The agent may ask the daemon about the outcome for this long.
constexpr auto kOutcomePatience = std::chrono::seconds(6);

std::string Listed(const std::vector<unsigned>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + absl::StrJoin(ranks, ", ");
}

}  // namespace

SshHost::~SshHost() {
  if (pid_ <= 0 || reaped_) return;
  ::kill(pid_, SIGKILL);
  // If ssh cannot be killed, closing its input ends it.
  for (FileDescriptor* const end : {&to_, &from_, &text_}) end->Reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status SshHost::Connect(const std::string& ssh, const std::string& own_path,
                              std::chrono::seconds patience) {
  ssh_ = ssh;
  patience_ = patience;
  std::vector<std::string> command = SshCommand(ssh);
  command.push_back(name_);
  command.push_back(AgentCommand(own_path));
  FileDescriptor its_input, its_output, its_error;
  // A host that fails must keep no descriptors, which the next ones need.
  FileDescriptor to, from, text;
  hello_by_ = Clock::now() + patience;
  if (MakePipe(its_input, to) && MakePipe(from, its_output) && MakePipe(text, its_error))
    pid_ = ForkGroup();
  if (pid_ == 0) Become(command, its_input.get(), its_output.get(), its_error.get());
  if (pid_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start ssh for host ", name_, ": ", std::strerror(errno),
                     ": raise ulimit -n or -u, or use fewer hosts"));
  }
  for (const FileDescriptor* const end : {&to, &from, &text}) {
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  to_ = std::move(to);
  from_ = std::move(from);
  text_ = std::move(text);
  return absl::OkStatus();
}

void SshHost::Begin() {
  begun_ = true;
  v1::LaunchFrame frame;
  frame.set_start(true);
  writer_.Add(frame);
}

void SshHost::SendCommand() {
  v1::LaunchFrame frame;
  v1::LaunchBegin& begin = *frame.mutable_begin();
  for (const unsigned rank : ranks_) begin.add_ranks(rank);
  for (const std::string& word : command_.command) begin.add_command(word);
  for (const auto& [name, value] : command_.environment) {
    v1::LaunchVariable& variable = *begin.add_environment();
    variable.set_name(name);
    variable.set_value(value);
  }
  begin.set_directory(command_.directory);
  begin.set_directory_needed(command_.directory_needed);
  for (const unsigned rank : readers_) begin.add_readers(rank);
  const std::size_t bytes = frame.ByteSizeLong();
  if (bytes <= kLaunchFrameBytesMax) return writer_.Add(frame);
  Fail("the ranks' command and variables have " + std::to_string(bytes) +
       " bytes, expected at most " + std::to_string(kLaunchFrameBytesMax) +
       ": put them into a file");
}

void SshHost::AddTo(std::vector<pollfd>& waited) {
  if (from_.valid() && !hold_) waited.push_back({from_.get(), POLLIN, 0});
  if (text_.valid() && !hold_) waited.push_back({text_.get(), POLLIN, 0});
  if (to_.valid() && writer_.pending() > 0) waited.push_back({to_.get(), POLLOUT, 0});
}

void SshHost::GiveInput(std::string_view bytes) {
  if (!to_.valid()) return;
  v1::LaunchFrame frame;
  frame.mutable_input()->set_data(bytes.data(), bytes.size());
  writer_.Add(frame);
}

void SshHost::JobFailed() {
  if (!to_.valid()) return;
  v1::LaunchFrame frame;
  frame.set_job_failed(true);
  writer_.Add(frame);
}

void SshHost::End(int signal) {
  if (!std::exchange(ending_, true))
    gone_by_ = Clock::now() + kRankPatience + 3 * kLastWords + kOutcomePatience;
  if (begun_ && to_.valid()) {
    v1::LaunchFrame frame;
    frame.set_end_by_signal(static_cast<std::uint32_t>(signal));
    writer_.Add(frame);
    return;
  }
  if (pid_ > 0 && !reaped_) ::kill(pid_, SIGTERM);  // Nothing runs there yet.
}

void SshHost::Turn() {
  Write();
  if (!hold_) ReadText();
  ReadFrames();
  Reap();
  CheckDeadlines();
}

void SshHost::Write() {
  if (!to_.valid() || writer_.pending() == 0) return;
  if (!writer_.WriteTo(to_.get())) to_.Reset();
}

void SshHost::ReadText() {
  constexpr int kReadsMax = 16;  // Other hosts need a turn, too.
  std::array<char, 8192> bytes;
  for (int reads = 0; text_.valid() && reads < kReadsMax; ++reads) {
    const ssize_t got = ::read(text_.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) text_.Reset();
    if (got > 0) text_left_.append(bytes.data(), static_cast<std::size_t>(got));
    if (got <= 0 && !text_left_.empty()) text_left_ += '\n';
    ShowText();
  }
}

void SshHost::ShowText() {
  for (;;) {
    const std::size_t end = text_left_.find('\n');
    if (end == std::string::npos && text_left_.size() <= kTextLineBytesMax) return;
    std::string line = text_left_.substr(0, end);
    text_left_.erase(0, end == std::string::npos ? end : end + 1);
    while (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    listener_.OnHostText(name_, line);
    if (has_hello_) continue;
    last_text_ += line + "\n";
    if (last_text_.size() > kLastTextBytesMax)
      last_text_.erase(0, last_text_.size() - kLastTextBytesMax);
  }
}

void SshHost::ReadFrames() {
  if (!from_.valid() || hold_) return;
  const bool open = reader_.ReadFrom(from_.get());
  for (std::string line; reader_.TakeNoise(line);) listener_.OnHostText(name_, line);
  for (v1::LaunchFrame frame; reader_.Take(frame);) Take(frame);
  if (!reader_.error().empty()) Fail(reader_.error());
  if (!open) from_.Reset();
}

bool SshHost::Has(unsigned rank) const { return std::ranges::find(ranks_, rank) != ranks_.end(); }

void SshHost::Take(const v1::LaunchFrame& frame) {
  switch (frame.what_case()) {
    case v1::LaunchFrame::kHello:
      if (frame.hello().version() != kSoftwareVersion) {
        return Fail("mlxcommctl there is release " + frame.hello().version().substr(0, 40) +
                    ", here " + kSoftwareVersion + ": install the same on both");
      }
      if (!std::exchange(has_hello_, true)) SendCommand();
      return;
    case v1::LaunchFrame::kReady:
      if (!frame.ready().problem().empty()) return Fail(frame.ready().problem(), kExitNotFound);
      ready_ = true;
      return;
    case v1::LaunchFrame::kOutput:
      if (!Has(frame.output().rank())) return;  // Its children may still print after it exits.
      return listener_.OnOutput(frame.output().rank(), frame.output().error() ? 1 : 0,
                                frame.output().data());
    case v1::LaunchFrame::kInputTaken: return listener_.OnInputTaken(*this, frame.input_taken());
    case v1::LaunchFrame::kEnded: return TakeEnd(frame.ended());
    case v1::LaunchFrame::kOutcome: return TakeOutcome(frame.outcome());
    case v1::LaunchFrame::kNotice:
      return listener_.OnNotice("host " + name_ + ": " +
                                std::string(Utf8Prefix(frame.notice(), kReportBytesMax)));
    default: return Fail("unexpected reply: is mlxcommctl there the same release?");
  }
}

void SshHost::TakeEnd(v1::LaunchEnded ended) {
  if (std::erase(running_, ended.rank()) == 0) return;
  ended.set_exit_code(ended.exit_code() & 0xff);
  ended.set_signal(ended.signal() & 0x7f);
  listener_.OnEnded(ended);
}

void SshHost::TakeOutcome(v1::LaunchOutcome outcome) {
  for (std::string* const text :
       {outcome.mutable_code(), outcome.mutable_detail(), outcome.mutable_why_alone()}) {
    *text = MakePrintable(Utf8Prefix(*text, kReportBytesMax));
  }
  listener_.OnOutcome(outcome);
}

void SshHost::Reap() {
  if (reaped_ || from_.valid() || ::waitpid(pid_, &status_, WNOHANG) != pid_) return;
  reaped_ = true;
  ReadText();
  to_.Reset();
  if (!begun_ && !ending_) {
    const int code = ExitCodeOf(status_);
    const bool is_explained = WIFEXITED(status_) && !has_hello_;
    return Fail("ssh ended " + HowEnded(code) +
                (is_explained ? ": " + SshRemedy(ssh_, name_, code, last_text_) : ""));
  }
  if (begun_ && !running_.empty() &&
      !(ending_ && WIFEXITED(status_) && WEXITSTATUS(status_) == 0)) {
    Fail("the connection is lost (ssh ended " + HowEnded(ExitCodeOf(status_)) + "), and so " +
         Listed(running_));
  }
}

void SshHost::CheckDeadlines() {
  if (reaped_) return;
  if (!ready_ && !ending_ && Clock::now() >= hello_by_) {
    const std::string what =
        has_hello_ ? "mlxcommctl there did not check the command" : "no answer";
    Fail(what + " within " + std::to_string(patience_.count()) +
         " s: " + SshRemedy(ssh_, name_, kSshFailed, has_hello_ ? what : "timed out"));
  }
  if (Clock::now() >= gone_by_) {
    ::kill(pid_, SIGKILL);  // The agent ends with the connection.
    from_.Reset();
  }
}

// Reports only the first reason.
void SshHost::Fail(const std::string& why, int exit_code) {
  if (std::exchange(failed_, true)) return;
  if (pid_ > 0 && !reaped_) ::kill(pid_, SIGTERM);
  listener_.OnHostFailed(name_, why, exit_code);
}

}  // namespace mlxcomm::ctl
