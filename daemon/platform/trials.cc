#include "daemon/platform/trials.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/platform/interface_watch.h"
#include "daemon/platform/interfaces.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/multicast_socket.h"
#include "daemon/platform/process_exit.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/platform/system_facts.h"
#include "daemon/platform/wakeup.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/socket_options.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {
namespace {

#if defined(__APPLE__)
constexpr bool kOnApple = true;
#else
constexpr bool kOnApple = false;
#endif
constexpr std::uint64_t kSecond = 1'000'000'000;

struct TrialResult {
  const char* verdict;
  std::string seen;  // Figures, or why it was not tried.
};
TrialResult Holds(std::string seen) { return {"holds", std::move(seen)}; }
TrialResult Fails(std::string seen) { return {"fails", std::move(seen)}; }
TrialResult Untried(std::string why) { return {"untried", std::move(why)}; }
std::string Error() { return std::strerror(errno); }

bool IsReadable(int descriptor, int timeout_ms) {
  pollfd ready{descriptor, POLLIN, 0};
  return ::poll(&ready, 1, timeout_ms) == 1;
}

TrialResult TryPageSize() {
  const long bytes = ::sysconf(_SC_PAGESIZE);
  const std::string seen = absl::StrCat(bytes, " bytes");
  if (!kOnApple) return Untried(absl::StrCat(seen, "; only macOS is assumed to use 16384"));
  return bytes == 16384 ? Holds(seen) : Fails(seen);
}

TrialResult TryFixedSize() {
  const auto segment = SharedSegment::Create("trial", 1 << 20);
  if (!segment.ok()) return Fails(std::string(segment.status().message()));
  const bool grew = ::ftruncate(segment->descriptor(), 2 << 20) == 0;
  const std::string larger = grew ? "accepted" : Error();
  const bool shrank = ::ftruncate(segment->descriptor(), 4096) == 0;
  const std::string smaller = shrank ? "accepted" : Error();
  const std::string seen = absl::StrCat("a larger size: ", larger, "; a smaller one: ", smaller);
  return grew || shrank ? Fails(seen) : Holds(seen);
}

// POSIX objects as macOS uses them; Linux uses memfd, whose names are private.
TrialResult TryNames() {
  std::size_t longest = 0;
  for (std::size_t length = 8; length <= 64; ++length) {
    std::string name = absl::StrCat("/mlxcomm.", ::getpid());
    name.resize(std::max(length, name.size()), 'x');
    const FileDescriptor object(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
    if (!object.valid()) break;
    ::shm_unlink(name.c_str());
    longest = name.size();
  }
  const std::string seen = absl::StrCat("names of up to ", longest, " characters are accepted",
                                        longest == 64 ? "; longer ones were not tried" : "");
  return longest >= 25 ? Holds(seen) : Fails(seen);
}

TrialResult TrySparse() {
  const std::uint64_t whole = PhysicalMemoryBytes();
  const auto segment = SharedSegment::Create("trial", whole);
  if (!segment.ok()) return Fails(std::string(segment.status().message()));
  segment->data()[0] = std::byte{1};
  segment->data()[segment->bytes() - 1] = std::byte{2};
  return Holds(absl::StrCat(whole >> 20, " MiB, of which two pages were touched"));
}

TrialResult TryPassing() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return Fails(Error());
  const FileDescriptor near(ends[0]);
  const FileDescriptor far(ends[1]);
  const auto segment = SharedSegment::Create("trial", 1 << 20);
  if (!segment.ok()) return Fails(std::string(segment.status().message()));
  const int given = segment->descriptor();
  char word = 'x';
  int taken = -1;
  int count = 0;
  if (!queue::SendWithDescriptors(near.get(), &word, 1, &given, 1, kSecond) ||
      !queue::ReceiveWithDescriptors(far.get(), &word, 1, &taken, 1, &count, kSecond) ||
      count != 1) {
    return Fails(absl::StrCat("its descriptor cannot be passed over a Unix socket: ", Error()));
  }
  const FileDescriptor passed(taken);
  void* const again = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, taken, 0);
  if (again == MAP_FAILED) return Fails(absl::StrCat("it cannot be mapped: ", Error()));
  segment->data()[12345] = std::byte{7};
  const bool seen = static_cast<std::byte*>(again)[12345] == std::byte{7};
  ::munmap(again, 1 << 20);
  return seen ? Holds("passed, mapped, and shared") : Fails("the two mappings differ");
}

TrialResult TryBell() {
  auto bell = Wakeup::Create();
  if (!bell.ok()) return Fails(std::string(bell.status().message()));
  if (IsReadable(bell->descriptor(), 0)) return Fails("it is readable before it was rung");
  for (int i = 0; i < 100'000; ++i) bell->Ring();
  if (!IsReadable(bell->descriptor(), 1000)) return Fails("it was rung but is not readable");
  bell->Drain();
  return IsReadable(bell->descriptor(), 0) ? Fails("it is still readable after it was drained")
                                           : Holds("rung 100000 times, readable once");
}

TrialResult TryWakeTime() {
  constexpr int kTimes = 2000;
  Wakeup ask;
  Wakeup answer;
  std::thread other([&] {
    for (int i = 0; i < kTimes && IsReadable(ask.descriptor(), 5000); ++i) {
      ask.Drain();
      answer.Ring();
    }
  });
  std::vector<std::uint64_t> times;
  for (int i = 0; i < kTimes; ++i) {
    const std::uint64_t begin = MonotonicNow();
    ask.Ring();
    if (!IsReadable(answer.descriptor(), 5000)) break;
    answer.Drain();
    times.push_back((MonotonicNow() - begin) / 2);
  }
  other.join();
  if (times.size() < kTimes) return Fails("a thread did not wake within 5 s of a ring");
  std::ranges::sort(times);
  const std::uint64_t median = times[times.size() / 2];
  const std::string seen = absl::StrCat("median ", median / 1000, " us, 99 of 100 within ",
                                        times[times.size() * 99 / 100] / 1000, " us, the longest ",
                                        times.back() / 1000, " us");
  return median <= 100'000 ? Holds(seen) : Fails(seen);
}

// A listening Unix socket in a temporary folder, which is removed with it.
struct Listener {
  explicit Listener(int backlog) {
    const char* const place = std::getenv("TMPDIR");
    folder = absl::StrCat(place != nullptr && *place != '\0' ? place : "/tmp", "/mlxcomm.XXXXXX");
    if (::mkdtemp(folder.data()) == nullptr) return;
    const std::string path = absl::StrCat(folder, "/s");
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    socket = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM, 0));
    listens = socket.valid() &&
              ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
              ::listen(socket.get(), backlog) == 0;
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() {
    ::unlink(address.sun_path);
    ::rmdir(folder.c_str());
  }
  FileDescriptor Connect() const {
    FileDescriptor made(::socket(AF_UNIX, SOCK_STREAM, 0));
    ::fcntl(made.get(), F_SETFL, O_NONBLOCK);
    if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return made;
    }
    const int reason = errno;  // Closing the socket may change it.
    made.Reset();
    errno = reason;
    return {};
  }
  std::string folder;
  sockaddr_un address{};
  FileDescriptor socket;
  bool listens = false;
};

TrialResult TryPeer() {
  const Listener listener(8);
  if (!listener.listens) return Fails(absl::StrCat("cannot listen on a Unix socket: ", Error()));
  const FileDescriptor client = listener.Connect();
  if (!client.valid()) return Fails(absl::StrCat("connect: ", Error()));
  const FileDescriptor accepted(::accept(listener.socket.get(), nullptr, nullptr));
  const auto peer = queue::FindPeer(accepted.get());
  if (!peer) return Fails(Error());
  const bool right = peer->uid == ::geteuid() && peer->pid == ::getpid();
  return right ? Holds("process and user are reported")
               : Fails(absl::StrCat("reported process ", peer->pid, " instead of ", ::getpid(),
                                    ", user ", peer->uid, " instead of ", ::geteuid()));
}

TrialResult TryFullBacklog() {
  const Listener listener(1);
  if (!listener.listens) return Fails(absl::StrCat("cannot listen on a Unix socket: ", Error()));
  std::vector<FileDescriptor> waiting;
  while (waiting.size() < 200) {
    FileDescriptor next = listener.Connect();
    if (!next.valid()) break;
    waiting.push_back(std::move(next));
  }
  if (waiting.size() == 200) return Fails("200 connections are queued behind a backlog of 1");
  const int expected = kOnApple ? ECONNREFUSED : EAGAIN;
  const int error = errno;
  const std::string seen =
      absl::StrCat("after ", waiting.size(), " connections: ", std::strerror(error), ", expected ",
                   std::strerror(expected));
  return error == expected ? Holds(seen) : Fails(seen);
}

// Watches a grandchild, because this process is not its parent.
TrialResult TryProcessExit() {
  int reported[2];
  int held[2];
  if (::pipe(reported) != 0 || ::pipe(held) != 0) return Fails(Error());
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::close(held[1]);
      char byte;
      static_cast<void>(::read(held[0], &byte, 1));  // Waits until released.
      ::_exit(0);
    }
    const ssize_t wrote = ::write(reported[1], &grandchild, sizeof grandchild);
    ::_exit(wrote == sizeof grandchild && grandchild > 0 ? 0 : 1);
  }
  ::close(held[0]);
  ::close(reported[1]);
  FileDescriptor hold(held[1]);
  const FileDescriptor reader(reported[0]);
  int status = 0;
  pid_t grandchild = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child ||
      ::read(reader.get(), &grandchild, sizeof grandchild) != sizeof grandchild) {
    return Untried("cannot start a process");
  }
  const ProcessExit watch = ProcessExit::Watch(grandchild);
  if (!watch.valid()) return Fails(absl::StrCat("cannot watch a process: ", Error()));
  if (IsReadable(watch.descriptor(), 50)) return Fails("reported the exit of a live process");
  const std::uint64_t begin = MonotonicNow();
  hold.Reset();
  if (!IsReadable(watch.descriptor(), 5000)) return Fails("did not report the exit within 5 s");
  return Holds(absl::StrCat("reported after ", (MonotonicNow() - begin) / 1000, " us"));
}

TrialResult TryOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Fails(Error());
  const std::uint64_t soft = limit.rlim_cur;
  const std::uint64_t wanted = std::min<std::uint64_t>(limit.rlim_max, 65536);
  limit.rlim_cur = static_cast<rlim_t>(wanted);
  const bool raised = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  const std::string error = raised ? "" : Error();
  std::vector<FileDescriptor> files;
  while (files.size() < 4096) {
    FileDescriptor next(::dup(STDOUT_FILENO));
    if (!next.valid()) break;
    files.push_back(std::move(next));
  }
  const std::string seen =
      absl::StrCat("soft limit ", soft, raised ? ", raised to " : ", not raised to ", wanted,
                   error.empty() ? "" : ": ", error, "; opened ", files.size());
  return raised && files.size() >= std::min<std::uint64_t>(wanted - 64, 4096) ? Holds(seen)
                                                                              : Fails(seen);
}

TrialResult TryWatch() {
  const auto watch = InterfaceWatch::Create();
  return watch.ok() ? Holds("the system reports changes")
                    : Fails(std::string(watch.status().message()));
}

// Uses the group of discovery, but a port that no program uses.
TrialResult TryMulticast() {
  const auto interfaces = ListInterfaces();
  if (!interfaces.ok()) return Fails(std::string(interfaces.status().message()));
  std::vector<std::string> reported;
  bool well = true;
  for (const NetworkInterface& one : *interfaces) {
    const auto source = LinkLocalAddressOf(one);
    if (one.loopback || !one.running || !one.multicast || one.point_to_point || !source) continue;
    constexpr MulticastSocket::Address kGroup = {0xff, 0x02, 0, 0, 0, 0, 0,    0,
                                                 0,    0,    0, 0, 0, 0, 0x4d, 0x58};
    const auto socket = MulticastSocket::Open({one.name, one.index, *source, kGroup, 7469});
    constexpr std::array<std::uint8_t, 8> kBytes = {'f', 'i', 'r', 's', 't', 0, 0, 0};
    const absl::Status sent = socket.ok() ? socket->Send(kBytes) : socket.status();
    bool looped_back = false;
    std::array<std::uint8_t, 64> into;
    if (sent.ok() && IsReadable(socket->descriptor(), 100))
      looped_back = socket->Receive(into).has_value();
    well = well && sent.ok() && !looped_back;
    reported.push_back(absl::StrCat(one.name, !sent.ok()    ? absl::StrCat(": ", sent.message())
                                              : looped_back ? ": sent, but looped back"
                                                            : ": sent, not looped back"));
  }
  if (reported.empty()) return Untried("no running interface has a link-local address");
  return well ? Holds(absl::StrJoin(reported, "; ")) : Fails(absl::StrJoin(reported, "; "));
}

constexpr std::pair<const char*, TrialResult (*)()> kTrials[] = {
    {"page-size", TryPageSize},       {"shm-fixed-size", TryFixedSize},
    {"shm-name", TryNames},           {"shm-sparse", TrySparse},
    {"shm-passed", TryPassing},       {"bell", TryBell},
    {"wake-time", TryWakeTime},       {"peer-process", TryPeer},
    {"full-backlog", TryFullBacklog}, {"process-exit", TryProcessExit},
    {"open-files", TryOpenFiles},     {"interface-watch", TryWatch},
    {"multicast", TryMulticast},
};

int Watch() {
  auto watch = InterfaceWatch::Create();
  if (!watch.ok()) {
    std::fprintf(stderr, "mlxcommd: %s\n", std::string(watch.status().message()).c_str());
    return 1;
  }
  std::printf("%llu\tready\t\n", static_cast<unsigned long long>(UnixNow()));
  std::fflush(stdout);
  for (;;) {
    std::array<pollfd, 2> ready = {{{watch->descriptor(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
    if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return 1;
    if ((ready[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return 0;
    for (const InterfaceChange& change : watch->Read()) {
      std::printf("%llu\t%s\t%s\n", static_cast<unsigned long long>(UnixNow()),
                  change.kind == InterfaceChange::Kind::kUp ? "up" : "down", change.name.c_str());
    }
    if (std::fflush(stdout) != 0) return 0;
  }
}

}  // namespace

int RunTrial(const std::string& name) {
  if (name == "watch") return Watch();
  for (const auto& [known, run] : kTrials) {
    if (name != known) continue;
    const TrialResult result = run();
    std::printf("%s\n%s\n", result.verdict, result.seen.c_str());
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  std::fprintf(stderr, "mlxcommd: no such trial: %s\n", name.c_str());
  return 2;
}

}  // namespace mlxcomm::platform
