#include "daemon/rdma/driver_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rail/text_field.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/doorbell.h"
#include "proto/system/program.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

// The longest wait for a process after it was killed.
constexpr std::uint64_t kKilledNs = 1'000'000'000;

// Killed processes that have not exited, by device.
class Undead {
 public:
  static Undead& Get() {
    static Undead* const undead = new Undead;  // Threads outlive main.
    return *undead;
  }
  void Add(const std::string& device, pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_[device] = pid;
  }
  // Returns 0 if none exists.
  pid_t Of(const std::string& device) {
    const std::lock_guard lock(mutex_);
    const auto found = pids_.find(device);
    if (found == pids_.end()) return 0;
    if (::waitpid(found->second, nullptr, WNOHANG) == 0) return found->second;
    pids_.erase(found);
    return 0;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, pid_t> pids_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DriverProcess>> DriverProcess::Start(const std::string& program,
                                                                    const std::string& device,
                                                                    std::uint64_t call_ns) {
  if (const pid_t undead = Undead::Get().Of(device); undead != 0) {
    return absl::UnavailableError(absl::StrCat("process ", undead,
                                               " hangs in the driver of RDMA device ", device,
                                               " and cannot be killed; restart this machine"));
  }
  int ends[2];
  if (!queue::MakeDoorbellPair(ends)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no socket for the process that drives RDMA device ", device, ": ", std::strerror(errno)));
  }
  FileDescriptor socket(ends[0]);
  const FileDescriptor theirs(ends[1]);
  FileDescriptor reader;
  FileDescriptor lifeline;
  if (!MakePipe(reader, lifeline)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no pipe for the process that drives RDMA device ", device, ": ", std::strerror(errno)));
  }
  const absl::StatusOr<pid_t> pid = StartProgram({program, kDriverArgument, device},
                                                 {.input = reader.get(), .third = theirs.get()});
  if (!pid.ok()) return absl::UnavailableError(pid.status().message());
  return std::shared_ptr<DriverProcess>(
      new DriverProcess(device, *pid, std::move(socket), std::move(lifeline), call_ns));
}

DriverProcess::~DriverProcess() {
  socket_.Reset();
  lifeline_.Reset();
  if (!reaped_ && !Reap(kClosedNs)) Kill();
}

void DriverProcess::Kill() {
  ::kill(pid_, SIGKILL);
  if (!Reap(kKilledNs)) Undead::Get().Add(device_, pid_);
  reaped_ = true;
}

// Returns true if the process has ended; `ended_` states how.
bool DriverProcess::Reap(std::uint64_t wait_ns) {
  int status = 0;
  if (!AwaitProgram(pid_, std::chrono::nanoseconds(wait_ns), status)) return false;
  reaped_ = true;
  if (ended_.ok()) {
    ended_ = absl::AbortedError(absl::StrCat("the process that drives RDMA device ", device_, " (",
                                             pid_, ") ended ",
                                             status < 0 ? "unseen" : HowEnded(ExitCodeOf(status))));
  }
  return true;
}

absl::Status DriverProcess::EndedLocked(std::uint64_t wait_ns) {
  if (!reaped_ && ended_.ok()) Reap(wait_ns);
  return ended_;
}

absl::Status DriverProcess::Ended(std::uint64_t wait_ns) {
  const std::lock_guard lock(mutex_);
  return EndedLocked(wait_ns);
}

absl::StatusOr<DriverAnswer> DriverProcess::Call(const DriverRequest& request,
                                                 std::span<const int> descriptors) {
  const std::lock_guard lock(mutex_);
  if (const absl::Status ended = EndedLocked(0); !ended.ok()) return ended;
  DriverAnswer answer;
  int none = 0;
  const bool answered =
      queue::SendWithDescriptors(socket_.get(), &request, sizeof request, descriptors.data(),
                                 static_cast<int>(descriptors.size()), call_ns_) &&
      queue::ReceiveWithDescriptors(socket_.get(), &answer, sizeof answer, nullptr, 0, &none,
                                    call_ns_);
  if (!answered) {
    const bool hangs = errno == ETIMEDOUT;
    // A process that has closed its end is about to exit.
    if (!hangs && Reap(kClosedNs)) return ended_;
    ended_ = rail::WithReason(absl::DeadlineExceededError(absl::StrCat(
                                  "the driver of RDMA device ", device_, " did not return within ",
                                  absl::FormatDuration(absl::Nanoseconds(call_ns_)),
                                  ", so its process (", pid_, ") was killed")),
                              LinkReason::kDriverSilent);
    Kill();
    return ended_;
  }
  if (answer.code == 0) return answer;
  absl::Status refused(static_cast<absl::StatusCode>(answer.code),
                       MakePrintable(rail::TextOf(answer.message)));
  if (HasEndedProcess(refused)) refused = absl::UnavailableError(refused.message());
  return rail::WithReason(refused, LinkReasonOf(answer.reason, LinkReason::kNone));
}

}  // namespace mlxcomm::rdma
