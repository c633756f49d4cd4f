#include "client/ctl/service/service_plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/service/collect_service.h"
#include "client/ctl/service/macos_programs.h"
#include "proto/system/program.h"
#include "proto/system/small_file.h"

namespace mlxcomm::ctl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kServicePoll{50};
// Limits the time from the old daemon's last answer to the new one's first.
constexpr std::chrono::seconds kTakeOverMax{30};
constexpr std::uint64_t kNsPerS = 1'000'000'000;

std::string Errno(const std::string& path) {
  return absl::StrCat(path, ": ", std::strerror(errno));
}

// Also makes missing parent folders.
std::string MakeFolder(const std::string& path, std::uint32_t mode) {
  if (path.empty() || ::access(path.c_str(), F_OK) == 0) return {};
  if (std::string trouble = MakeFolder(std::filesystem::path(path).parent_path(), mode);
      !trouble.empty())
    return trouble;
  if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) != 0) return Errno(path);
  return ::chmod(path.c_str(), static_cast<mode_t>(mode)) == 0 ? std::string() : Errno(path);
}

// Returns false and sets errno on errors.
bool CopyAll(const FileDescriptor& from, const FileDescriptor& to) {
  std::string bytes(1024 * 1024, '\0');
  for (;;) {
    const ssize_t count = ::read(from.get(), bytes.data(), bytes.size());
    if (count == 0) return true;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (!WriteAll(to, std::string_view(bytes).substr(0, static_cast<std::size_t>(count))))
      return false;
  }
}

// Copies into a new file that only root can read until it is complete. The file is opened only
// once, because others with access to the folder could replace it in between.
std::string CopyFile(const ServiceStep& step) {
  const FileDescriptor from(::open(step.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.valid()) return Errno(step.from);
  ::unlink(step.path.c_str());  // Never writes to a running program, or through a link.
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor to(::open(step.path.c_str(), kNew, S_IRUSR | S_IWUSR));
  const bool is_made = to.valid();
  const bool is_copied = is_made && CopyAll(from, to) &&
                         ::fchmod(to.get(), static_cast<mode_t>(step.mode)) == 0 &&
                         ::fsync(to.get()) == 0;
  std::string trouble;
  if (!is_copied) {
    trouble =
        absl::StrCat("cannot copy ", step.from, " to ", step.path, ": ", std::strerror(errno));
  }
  if (is_made && ::close(to.Release()) != 0 && trouble.empty()) trouble = Errno(step.path);
  if (is_made && !trouble.empty()) ::unlink(step.path.c_str());  // A rollback must not use it.
  return trouble;
}

std::string RunWords(const ServiceStep& step) {
  const auto output = RunProgram(
      OfMacos(step.words), {.timeout_ns = static_cast<std::uint64_t>(step.patience_s) * kNsPerS,
                            .with_errors = true,
                            .until_exit = true});
  if (step.may_fail) return {};
  if (!output.ok()) return std::string(output.status().message());
  if (output->exit_code == 0) return {};
  return absl::StrCat(absl::StrJoin(step.words, " "), " ended ", HowEnded(output->exit_code), ": ",
                      absl::StripAsciiWhitespace(output->text),
                      step.remedy.empty() ? "" : absl::StrCat("\n", step.remedy));
}

std::string Await(const ServiceStep& step) {
  const auto deadline = Clock::now() + std::chrono::seconds(step.patience_s);
  const bool for_socket = step.kind == ServiceStep::Kind::kAwaitSocket;
  for (;; std::this_thread::sleep_for(kServicePoll)) {
    if (for_socket && AnswersAt(step.path)) return {};
    if (!for_socket) {
      const absl::StatusOr<ProgramOutput> output = RunProgram(OfMacos(step.words));
      if (output.ok() && output->exit_code != 0) return {};
    }
    if (Clock::now() >= deadline) break;
  }
  return for_socket ? absl::StrCat("mlxcommd was started, but does not answer at ", step.path,
                                   " within ", step.patience_s, " s: see mlxcommctl service logs")
                    : absl::StrCat("the running mlxcommd did not end within ", step.patience_s,
                                   " s: run this again later");
}

// Has no deadline, because jobs may run for days. Reports what it is waiting for; Ctrl-C ends it.
std::string AwaitNext(const ServiceStep& step) {
  auto answered = Clock::now();
  std::string reported;
  for (;; std::this_thread::sleep_for(kServicePoll)) {
    const std::optional<v1::NodeStatus> node = FetchNode(step.path);
    if (!node.has_value()) {
      if (Clock::now() - answered < kTakeOverMax) continue;
      return absl::StrCat("mlxcommd does not answer at ", step.path,
                          ": see mlxcommctl service logs");
    }
    answered = Clock::now();
    if (node->start() != step.start) return {};
    if (node->restart().asked() == step.asked) continue;  // It is still checking the new program.
    if (!node->restart().refused().empty()) {
      return absl::StrCat("mlxcommd did not restart: ", node->restart().refused());
    }
    if (node->restart().taken_back())
      return "mlxcommd did not restart: the restart was cancelled (service restart --cancel)";
    const std::uint32_t clients = node->restart().clients();
    const std::string waits = absl::StrCat(
        "waiting for ", clients, clients == 1 ? " process" : " processes",
        " to end (see mlxcommctl status). After Ctrl-C mlxcommd still restarts when they have "
        "ended; mlxcommctl service restart --cancel cancels that");
    if (clients == 0 || waits == reported) continue;
    std::fprintf(stderr, "mlxcommctl: %s\n", waits.c_str());
    reported = waits;
  }
}

std::string AwaitStay(const ServiceStep& step) {
  const auto deadline = Clock::now() + std::chrono::seconds(step.patience_s);
  for (;; std::this_thread::sleep_for(kServicePoll)) {
    const std::optional<v1::NodeStatus> node = FetchNode(step.path);
    if (node.has_value() && node->start() != step.start)
      return "too late: mlxcommd has just restarted";
    if (node.has_value() && node->restart().taken_back()) return {};
    if (Clock::now() >= deadline) break;
  }
  return absl::StrCat("mlxcommd at ", step.path, " did not confirm the cancellation within ",
                      step.patience_s, " s: see mlxcommctl status and mlxcommctl service logs");
}

// Stopping this program after the old daemon has exited and before the new one has started would
// leave the service down. A handler, because child processes inherit ignored signals.
volatile std::sig_atomic_t g_stop_signal = 0;

extern "C" void LogFinishing(int signal) {
  constexpr char kFinishing[] =
      "mlxcommctl: finishing first, so that the service is not left half changed\n";
  if (g_stop_signal != 0) return;
  g_stop_signal = signal;
  const int before = errno;
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, kFinishing, sizeof kFinishing - 1);
  errno = before;
}

class Unstoppable {
 public:
  Unstoppable() {
    struct sigaction finishing{};
    finishing.sa_handler = LogFinishing;
    finishing.sa_flags = SA_RESTART;
    sigemptyset(&finishing.sa_mask);
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      // Signals that nohup ignores stay ignored.
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &finishing, nullptr);
    }
  }
  ~Unstoppable() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  Unstoppable(const Unstoppable&) = delete;
  Unstoppable& operator=(const Unstoppable&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kSignals)]{};
};

// Returns why it failed; "" on success.
std::string Do(const ServiceStep& step) {
  std::error_code error;
  switch (step.kind) {
    case ServiceStep::Kind::kFolder: return MakeFolder(step.path, step.mode);
    case ServiceStep::Kind::kWrite: {  // Atomically.
      const auto mode = static_cast<mode_t>(step.mode);
      return WriteWhole(step.path, step.text, Placing::kReplace, mode) ? "" : Errno(step.path);
    }
    case ServiceStep::Kind::kCopy: return CopyFile(step);
    case ServiceStep::Kind::kMove:
      return ::rename(step.from.c_str(), step.path.c_str()) == 0 ? std::string() : Errno(step.path);
    case ServiceStep::Kind::kPutBack:
      if (::access(step.from.c_str(), F_OK) != 0) return {};
      std::filesystem::remove_all(step.path, error);
      return ::rename(step.from.c_str(), step.path.c_str()) == 0 ? std::string() : Errno(step.path);
    case ServiceStep::Kind::kRemove:
      std::filesystem::remove_all(step.path, error);
      return error ? absl::StrCat(step.path, ": ", error.message()) : std::string();
    case ServiceStep::Kind::kRemoveIfEmpty: ::rmdir(step.path.c_str()); return {};
    case ServiceStep::Kind::kRun: return RunWords(step);
    case ServiceStep::Kind::kAwaitEnd:
    case ServiceStep::Kind::kAwaitSocket: return Await(step);
    case ServiceStep::Kind::kAwaitNext: return AwaitNext(step);
    case ServiceStep::Kind::kAwaitStay: return AwaitStay(step);
  }
  return {};
}

// Runs all steps even if some fail, and returns the errors.
std::string DoAll(const std::vector<ServiceStep>& steps) {
  std::string troubles;
  for (const ServiceStep& step : steps) {
    const std::string trouble = Do(step);
    if (!trouble.empty()) absl::StrAppend(&troubles, troubles.empty() ? "" : "; ", trouble);
  }
  return troubles;
}

std::string RollBack(const ServicePlan& plan, std::size_t done) {
  if (plan.restore.empty()) return {};
  const bool has_ended = !plan.start_again.empty() && done >= plan.ends_at;
  std::string trouble = DoAll(plan.restore);
  if (trouble.empty() && has_ended) trouble = DoAll(plan.start_again);
  if (!trouble.empty()) return absl::StrCat("cannot restore the previous files: ", trouble);
  return has_ended ? "the previous files are restored, and the daemon runs with them"
                   : "the previous files are restored";
}

}  // namespace

CarriedOut CarryOut(const ServicePlan& plan) {
  CarriedOut done;
  std::optional<Unstoppable> unstoppable(std::in_place);
  for (const ServiceStep& step : plan.steps) {
    if (step.kind == ServiceStep::Kind::kAwaitNext) {  // May be interrupted.
      unstoppable.reset();
      if (g_stop_signal != 0) std::raise(g_stop_signal);
    }
    done.trouble = Do(step);
    if (!done.trouble.empty()) break;
    ++done.steps;
  }
  std::error_code ignored;
  if (!done.trouble.empty()) {
    for (const std::string& path : plan.staged) std::filesystem::remove_all(path, ignored);
    done.restored = RollBack(plan, done.steps);
  }
  return done;
}

}  // namespace mlxcomm::ctl
