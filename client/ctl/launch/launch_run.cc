#include "client/ctl/launch/launch_run.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/launch/launch_frames.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

// Set by the signal handler.
volatile sig_atomic_t g_signal = 0;

// Reading from the terminal's background would stop this process (SIGTTIN). A terminal that is not
// ours has no foreground group.
bool MayRead() {
  const pid_t foreground = ::tcgetpgrp(STDIN_FILENO);
  return ::isatty(STDIN_FILENO) == 0 || foreground < 0 || foreground == ::getpgrp();
}

}  // namespace

void HandleLaunchSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action{};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = [](int number) { g_signal = number; };
    ::sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);  // The write fails instead, and all ranks end.
}

LaunchRun::LaunchRun(Settings settings)
    : settings_(std::move(settings)),
      lines_(settings_.prefix),
      shows_prompts_(::isatty(STDOUT_FILENO) != 0),
      host_of_(settings_.size) {}

void LaunchRun::Add(std::unique_ptr<RankHost> host, const std::string& name,
                    const std::vector<unsigned>& ranks, bool gets_input) {
  if (gets_input) readers_.push_back({host.get()});
  hosts_.push_back(std::move(host));
  for (const unsigned rank : ranks) host_of_.at(rank) = name;
}

int LaunchRun::Run() {
  const auto done = [](const auto& host) { return host->done(); };
  while (!std::ranges::all_of(hosts_, done)) {
    BeginIfReady();
    Wait();
    Forward();
    for (const auto& host : hosts_) {
      host->HoldOutput(lines_.is_full());
      host->Turn();
    }
    if (end_at_ && Clock::now() >= *end_at_) EndAllOnce();
    if (shows_prompts_) lines_.ShowPrompt(0, Clock::now());
    Write();
  }
  lines_.EndAll();
  Summarise();
  ShowTheRest();
  return exit_code_;
}

void LaunchRun::FailWith(int code) {
  if (exit_code_ == 0) exit_code_ = code;
}

void LaunchRun::OnOutput(unsigned rank, int stream, std::string_view bytes) {
  if (bytes.empty()) return lines_.End(rank, stream);
  has_printed_ = has_printed_ || stream == 0;
  lines_.Print(rank, stream, bytes);
}

void LaunchRun::OnEnded(const v1::LaunchEnded& end) {
  RankFate& fate = fates_.emplace_back();
  fate = {.end = end,
          .host = end.rank() < host_of_.size() ? host_of_[end.rank()] : "",
          .asked = ending_};
  if (settings_.verbose) Say(DescribeEnd(fate));
  if (CodeOfEnd(end) == 0 || ending_ || end_at_) return;
  if (!std::exchange(job_failed_, true)) {
    rank_failed_first_ = exit_code_ == 0;
    for (const auto& host : hosts_) host->JobFailed();
  }
  FailWith(CodeOfEnd(end));
  const bool is_last = fates_.size() >= settings_.size;
  if (settings_.keep_going) {
    if (!is_last) Say(DescribeEnd(fate) + "; the others continue");
    return;
  }
  end_at_ = Clock::now() + settings_.grace;
  if (is_last) return;
  Say(DescribeEnd(fate) + "; " +
      (settings_.grace.count() == 0 ? std::string("ending the others")
                                    : "the others have " +
                                          HumanTime(static_cast<std::uint64_t>(
                                              settings_.grace / std::chrono::milliseconds(1))) +
                                          " to end"));
}

void LaunchRun::OnOutcome(const v1::LaunchOutcome& outcome) {
  v1::LaunchOutcome all = outcome_.code().empty() ? outcome : outcome_;
  if (!outcome_.why_alone().empty()) all.set_why_alone(outcome_.why_alone());
  all.set_joined(outcome_.joined() || outcome.joined());
  all.set_is_known((outcome_.is_known() || !heard_outcome_) && outcome.is_known());
  all.set_loads_mlxcomm((outcome_.loads_mlxcomm() || !heard_outcome_) && outcome.loads_mlxcomm());
  heard_outcome_ = true;
  outcome_ = std::move(all);
}

void LaunchRun::OnInputTaken(const RankHost& host, std::size_t bytes) {
  for (Reader& reader : readers_) {
    if (reader.host == &host) reader.under_way -= std::min(bytes, reader.under_way);
  }
}

void LaunchRun::OnNotice(const std::string& text) {
  reported_not_joined_ = true;
  Say(MakePrintable(text));
}

void LaunchRun::OnHostText(const std::string& host, const std::string& line) {
  lines_.Say("[" + host + "] " + MakePrintable(line));
}

void LaunchRun::OnHostFailed(const std::string& host, const std::string& why, int exit_code) {
  if (!ending_) {
    Say("host " + host + ": " + MakePrintable(why) + "; " +
        (begun_ ? "ending the others" : "nothing was started"));
  }
  FailWith(exit_code);
  if (begun_) EndAllOnce();
}

void LaunchRun::BeginIfReady() {
  const auto failed = [](const auto& host) { return host->failed(); };
  const auto heard = [&](const auto& host) { return host->ready() || failed(host); };
  if (begun_ || ending_ || !std::ranges::all_of(hosts_, heard)) return;
  if (std::ranges::any_of(hosts_, failed)) return EndAll(SIGTERM);
  begun_ = true;
  for (const auto& host : hosts_) host->Begin();
}

void LaunchRun::Wait() {
  std::vector<pollfd> waited;
  const bool takes_input = begun_ && !readers_.empty() && MayRead() &&
                           std::ranges::all_of(readers_, [](const Reader& reader) {
                             return reader.host->done() || reader.under_way < kLaunchInputBytesMax;
                           });
  if (takes_input) waited.push_back({STDIN_FILENO, POLLIN, 0});
  for (const auto& host : hosts_) host->AddTo(waited);
  lines_.AddTo(waited);
  // Short, because nothing signals the end of a child that has closed its pipes.
  ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
  if (takes_input && waited[0].revents != 0) PassInput();
}

void LaunchRun::Write() {
  if (lines_.Write()) return;
  FailWith(128 + SIGPIPE);
  EndAllOnce();
}

void LaunchRun::ShowTheRest() {
  for (Write(); lines_.is_waiting() && g_signal == 0; Write()) {
    std::vector<pollfd> waited;
    lines_.AddTo(waited);
    ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
  }
  if (g_signal != 0) FailWith(128 + g_signal);
  if (lines_.has_lost()) FailWith(kExitFailed);
}

void LaunchRun::PassInput() {
  std::array<char, kLaunchChunkBytes> bytes;
  const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    for (const Reader& reader : readers_) reader.host->GiveInput({});
    return readers_.clear();
  }
  if (bytes[static_cast<std::size_t>(got) - 1] == '\n' && ::isatty(STDIN_FILENO) != 0) {
    lines_.PromptAnswered();
  }
  for (Reader& reader : readers_) {
    if (reader.host->done()) continue;
    reader.under_way += static_cast<std::size_t>(got);
    reader.host->GiveInput({bytes.data(), static_cast<std::size_t>(got)});
  }
}

void LaunchRun::Forward() {
  const int signal = g_signal;
  if (signal == 0) return;
  g_signal = 0;
  if (!ending_) {
    Say(std::string(signal == SIGINT ? "interrupted" : ::strsignal(signal)) + "; ending " +
        Plural(settings_.size, "rank"));
  }
  FailWith(128 + signal);
  EndAll(signal);
}

void LaunchRun::EndAllOnce() {
  if (!ending_) EndAll(SIGTERM);
}

void LaunchRun::EndAll(int signal) {
  ending_ = true;
  for (const auto& host : hosts_) host->End(signal);
}

// A signal or a lost host has already been reported.
void LaunchRun::Summarise() {
  if (!rank_failed_first_) return exit_code_ == 0 && begun_ ? ReportThatNoneJoined() : void();
  if (const RankFate* const first = FirstFailure(fates_, outcome_); first != nullptr) {
    exit_code_ = CodeOfEnd(first->end);
  }
  for (const std::string& line : FailureSummary(settings_.job, fates_, outcome_)) Say(line);
}

// Each rank trained alone if its Python lacks mlxcomm, or ran for kJoinPatience without joining. A
// Python with mlxcomm, or `launch -- hostname`, just did not ask for a group.
void LaunchRun::ReportThatNoneJoined() {
  const std::string& why_alone = outcome_.why_alone();
  if (settings_.size < 2 || outcome_.joined()) return;
  if (why_alone.empty() && !settings_.is_python) return;
  if (why_alone.empty() && (!reported_not_joined_ || !outcome_.is_known())) return;
  const bool asked_for_none = why_alone.empty() && outcome_.loads_mlxcomm();
  Say("no rank joined job " + settings_.job + ": each ran alone" +
      (asked_for_none      ? ", and none asked for a group (mx.distributed.init)"
       : why_alone.empty() ? std::string()
                           : "; " + why_alone));
  if (!asked_for_none) FailWith(kExitFailed);
}

}  // namespace mlxcomm::ctl
