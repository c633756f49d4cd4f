#include "daemon/platform/process_exit.h"

#include <fcntl.h>
#include <sys/event.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace mlxcomm::platform {
namespace {

// The watched processes and the thread that waits for them. Created with the first one, and never
// destroyed, because the thread runs until this process exits.
class Exits {
 public:
  static Exits& Get() {
    static auto* const exits = new Exits;
    return *exits;
  }

  FileDescriptor Watch(pid_t pid, std::uint64_t& number) {
    const std::lock_guard lock(mutex_);
    FileDescriptor reader;
    FileDescriptor writer;
    if (!Run() || !MakePipe(reader, writer)) return {};
    // Watching a process twice is harmless.
    if (!Report(pid, EV_ADD | EV_ONESHOT)) {
      const int reason = errno;  // Closing the pipe may change it.
      reader.Reset();
      writer.Reset();
      errno = reason;
      return {};
    }
    number = ++last_number_;
    writers_[pid].emplace(number, std::move(writer));
    return reader;
  }

  void Forget(pid_t pid, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = writers_.find(pid);
    if (found == writers_.end() || found->second.erase(number) == 0) return;
    if (!found->second.empty()) return;
    writers_.erase(found);
    Report(pid,
           EV_DELETE);  // Fails if the event has just arrived; the thread then finds no watcher.
  }

 private:
  // Returns false with errno set.
  bool Run() {
    if (queue_.valid()) return true;
    FileDescriptor queue(::kqueue());
    if (!queue.valid()) return false;
    ::fcntl(queue.get(), F_SETFD, FD_CLOEXEC);
    try {
      std::thread([this, descriptor = queue.get()] { Wait(descriptor); }).detach();
    } catch (const std::system_error&) {
      errno = EAGAIN;
      return false;
    }
    queue_ = std::move(queue);
    return true;
  }

  bool Report(pid_t pid, unsigned flags) {
    struct kevent change;
    EV_SET(&change, static_cast<uintptr_t>(pid), EVFILT_PROC, static_cast<std::uint16_t>(flags),
           NOTE_EXIT, 0, nullptr);
    return ::kevent(queue_.get(), &change, 1, nullptr, 0, nullptr) == 0;
  }

  void Wait(int queue) {
    for (;;) {
      struct kevent ended;
      const int count = ::kevent(queue, nullptr, 0, &ended, 1, nullptr);
      if (count < 0 && errno != EINTR) return;  // Impossible while the queue is open.
      if (count != 1) continue;
      const std::lock_guard lock(mutex_);
      const auto found = writers_.find(static_cast<pid_t>(ended.ident));
      if (found == writers_.end()) continue;
      // Not every system reports the end of a pipe as readable.
      for (const auto& [number, writer] : found->second) {
        const char byte = 1;
        while (::write(writer.get(), &byte, 1) < 0 && errno == EINTR) {
        }
      }
      writers_.erase(found);
    }
  }

  std::mutex mutex_;
  FileDescriptor queue_;
  std::uint64_t last_number_ = 0;
  std::map<pid_t, std::map<std::uint64_t, FileDescriptor>> writers_;
};

}  // namespace

FileDescriptor StartWatchingExit(pid_t pid, std::uint64_t& number) {
  return Exits::Get().Watch(pid, number);
}

void StopWatchingExit(pid_t pid, std::uint64_t number) { Exits::Get().Forget(pid, number); }

}  // namespace mlxcomm::platform
