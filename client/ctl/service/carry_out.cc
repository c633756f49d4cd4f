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
constexpr std::chrono::milliseconds kLook{50};
// From the last answer of the one to the first of the other.
constexpr std::chrono::seconds kTakesOver{30};
constexpr std::uint64_t kNsPerS = 1'000'000'000;

std::string Errno(const std::string& path) {
  return absl::StrCat(path, ": ", std::strerror(errno));
}

// The folders above it as well; those that are there stay as they are.
std::string MakeFolder(const std::string& path, std::uint32_t mode) {
  if (path.empty() || ::access(path.c_str(), F_OK) == 0) return {};
  if (std::string trouble = MakeFolder(std::filesystem::path(path).parent_path(), mode);
      !trouble.empty())
    return trouble;
  if (::mkdir(path.c_str(), static_cast<mode_t>(mode)) != 0) return Errno(path);
  return ::chmod(path.c_str(), static_cast<mode_t>(mode)) == 0 ? std::string() : Errno(path);
}

// False: `errno` says why.
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

// Into a new file that only root can read until it is whole. It is never named twice, because
// others that may write to the folder could put another one there in between.
std::string CopyFile(const ServiceStep& step) {
  const FileDescriptor from(::open(step.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.valid()) return Errno(step.from);
  ::unlink(step.path.c_str());  // Not into what a program has open, nor behind a link.
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
  if (is_made && !trouble.empty()) ::unlink(step.path.c_str());  // It might be put back.
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
  for (;; std::this_thread::sleep_for(kLook)) {
    if (for_socket && AnswersAt(step.path)) return {};
    if (!for_socket) {
      const absl::StatusOr<ProgramOutput> output = RunProgram(OfMacos(step.words));
      if (output.ok() && output->exit_code != 0) return {};
    }
    if (Clock::now() >= deadline) break;
  }
  return for_socket
             ? absl::StrCat("mlxcommd was started, but nobody answers at ", step.path, " within ",
                            step.patience_s, " s: mlxcommctl service logs shows what it said")
             : absl::StrCat("the running mlxcommd has not ended within ", step.patience_s,
                            " s: run this again later");
}

// Jobs may run for days: so it tells what it waits for, and has no deadline but the user's Ctrl-C.
std::string AwaitNext(const ServiceStep& step) {
  auto answered = Clock::now();
  std::string reported;
  for (;; std::this_thread::sleep_for(kLook)) {
    const std::optional<v1::NodeStatus> node = AskNode(step.path);
    if (!node.has_value()) {
      if (Clock::now() - answered < kTakesOver) continue;
      return absl::StrCat("mlxcommd does not answer at ", step.path,
                          ": mlxcommctl service logs shows what it said");
    }
    answered = Clock::now();
    if (node->start() != step.start) return {};
    if (node->restart().asked() == step.asked) continue;  // It still examines the new program.
    if (!node->restart().refused().empty()) {
      return absl::StrCat("mlxcommd goes on as it is: ", node->restart().refused());
    }
    if (node->restart().taken_back())
      return "mlxcommd goes on as it is: somebody has taken the restart back (service restart "
             "--cancel)";
    const std::uint32_t clients = node->restart().clients();
    const std::string waits =
        absl::StrCat("waiting for ", clients, clients == 1 ? " process" : " processes",
                     " to end (mlxcommctl status shows the jobs; after Ctrl-C mlxcommd "
                     "restarts all the same, once they have ended; mlxcommctl service restart "
                     "--cancel takes that back)");
    if (clients == 0 || waits == reported) continue;
    std::fprintf(stderr, "mlxcommctl: %s\n", waits.c_str());
    reported = waits;
  }
}

std::string AwaitStay(const ServiceStep& step) {
  const auto deadline = Clock::now() + std::chrono::seconds(step.patience_s);
  for (;; std::this_thread::sleep_for(kLook)) {
    const std::optional<v1::NodeStatus> node = AskNode(step.path);
    if (node.has_value() && node->start() != step.start)
      return "too late: mlxcommd has just restarted; mlxcommctl status shows it";
    if (node.has_value() && node->restart().taken_back()) return {};
    if (Clock::now() >= deadline) break;
  }
  return absl::StrCat(
      "mlxcommd at ", step.path, " has not said within ", step.patience_s,
      " s that it stays: mlxcommctl status and mlxcommctl service logs may say why");
}

// Between the end of the one daemon and the start of the other nobody may stop this program: the
// service would be down. A handler, because what is ignored stays so in the programs that are run.
volatile std::sig_atomic_t g_stop_signal = 0;

extern "C" void SayFinishing(int signal) {
  constexpr char kFinishing[] = "mlxcommctl: finishing; a service is not left half changed\n";
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
    finishing.sa_handler = SayFinishing;
    finishing.sa_flags = SA_RESTART;
    sigemptyset(&finishing.sa_mask);
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      // One that was ignored, as by nohup, stays so.
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

// Why it failed; empty: done.
std::string Do(const ServiceStep& step) {
  std::error_code error;
  switch (step.kind) {
    case ServiceStep::Kind::kFolder: return MakeFolder(step.path, step.mode);
    case ServiceStep::Kind::kWrite: {  // Beside it first, so that it is never half written.
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

// Whatever fails, the others are tried. Returns what failed.
std::string DoAll(const std::vector<ServiceStep>& steps) {
  std::string troubles;
  for (const ServiceStep& step : steps) {
    const std::string trouble = Do(step);
    if (!trouble.empty()) absl::StrAppend(&troubles, troubles.empty() ? "" : "; ", trouble);
  }
  return troubles;
}

std::string GoBack(const ServicePlan& plan, std::size_t done) {
  if (plan.restore.empty()) return {};
  const bool has_ended = !plan.start_again.empty() && done >= plan.ends_at;
  std::string trouble = DoAll(plan.restore);
  if (trouble.empty() && has_ended) trouble = DoAll(plan.start_again);
  if (!trouble.empty())
    return absl::StrCat("what was there before could not be put back: ", trouble);
  return has_ended ? "the files that were there before are back, and the daemon runs with them"
                   : "the files that were there before are back";
}

}  // namespace

CarriedOut CarryOut(const ServicePlan& plan) {
  CarriedOut done;
  std::optional<Unstoppable> unstoppable(std::in_place);
  for (const ServiceStep& step : plan.steps) {
    if (step.kind == ServiceStep::Kind::kAwaitNext) {  // A user may leave it, now or later.
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
    done.restored = GoBack(plan, done.steps);
  }
  return done;
}

}  // namespace mlxcomm::ctl
