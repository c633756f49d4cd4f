// kqueue(2): its reports about processes, over Linux's pidfds.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

namespace {

// By queue and process. Never destroyed: threads wait until the end.
struct Watched {
  std::mutex mutex;
  std::map<std::pair<int, pid_t>, int> descriptors;
};

Watched& All() {
  static auto* const all = new Watched;
  return *all;
}

bool HasEnded(int descriptor) {
  pollfd waited{descriptor, POLLIN, 0};
  return ::poll(&waited, 1, 0) == 1;
}

int Add(int queue, pid_t pid) {
  Watched& all = All();
  const std::lock_guard lock(all.mutex);
  const auto key = std::pair(queue, pid);
  if (all.descriptors.contains(key)) return 0;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return errno;
  if (HasEnded(descriptor)) {  // It has not been reaped yet.
    ::close(descriptor);
    return ESRCH;
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = pid;
  if (::epoll_ctl(queue, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    const int reason = errno;
    ::close(descriptor);
    return reason;
  }
  all.descriptors[key] = descriptor;
  return 0;
}

int Delete(int queue, pid_t pid) {
  Watched& all = All();
  const std::lock_guard lock(all.mutex);
  const auto found = all.descriptors.find(std::pair(queue, pid));
  if (found == all.descriptors.end()) return ENOENT;
  ::close(found->second);
  all.descriptors.erase(found);
  return 0;
}

int Change(int queue, const struct kevent& change) {
  if (change.filter != EVFILT_PROC) return EINVAL;
  const auto pid = static_cast<pid_t>(change.ident);
  return (change.flags & EV_DELETE) != 0 ? Delete(queue, pid) : Add(queue, pid);
}

}  // namespace

extern "C" int kqueue() { return ::epoll_create1(0); }

extern "C" int kevent(int queue, const struct kevent* changes, int change_count,
                      struct kevent* events, int event_count, const timespec* timeout) {
  for (int i = 0; i < change_count; ++i) {
    if (const int reason = Change(queue, changes[i]); reason != 0) {
      errno = reason;
      return -1;
    }
  }
  if (event_count == 0) return 0;
  epoll_event event{};
  const long wait_ms =
      timeout == nullptr ? -1 : timeout->tv_sec * 1000 + timeout->tv_nsec / 1'000'000;
  const int count = ::epoll_wait(queue, &event, 1, static_cast<int>(wait_ms));
  if (count <= 0) return count;
  Delete(queue, event.data.fd);
  events[0] = {
      static_cast<uintptr_t>(event.data.fd), EVFILT_PROC, EV_ONESHOT, NOTE_EXIT, 0, nullptr};
  return 1;
}
