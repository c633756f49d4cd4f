#include "proto/queue/dial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <thread>

#include "proto/queue/descriptor_passing.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::queue {
namespace {

Failure Unavailable(const std::string& path, const std::string& why) {
  return {FailureCode::kUnavailable, kNoRank, "no mlxcommd at " + path + ": " + why};
}

// Ends a wait at the deadline, or when the caller interrupts it.
class Patience {
 public:
  Patience(std::uint64_t timeout_ns, const std::function<bool()>& interrupted)
      : deadline_(Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kTimeoutMostNs))),
        interrupted_(interrupted) {}
  std::uint64_t left_ns() const {
    const auto left = (deadline_ - Clock::now()).count();
    return left > 0 ? static_cast<std::uint64_t>(left) : 0;
  }
  // Sets errno: ETIMEDOUT or ECANCELED.
  bool over() const {
    if (interrupted_ && interrupted_()) {
      errno = ECANCELED;
      return true;
    }
    if (left_ns() > 0) return false;
    errno = ETIMEDOUT;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kTimeoutMostNs = 86'400'000'000'000;
  Clock::time_point deadline_;
  const std::function<bool()>& interrupted_;
};

int OpenSocket() {
#if defined(SOCK_CLOEXEC) && defined(SOCK_NONBLOCK)
  // With SOCK_CLOEXEC, because another thread may fork and exec at any time.
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return -1;
#else
  const int connection = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (connection < 0) return -1;
  ::fcntl(connection, F_SETFD, FD_CLOEXEC);
  ::fcntl(connection, F_SETFL, O_NONBLOCK);
#endif
  SilenceSignals(connection);
  return connection;
}

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Returns a non-blocking socket. A blocking connect would wait forever once a stopping daemon's
// backlog is full. macOS then refuses the connection, as if no process listened; IsPresent()
// distinguishes the two cases.
int ConnectUnix(const std::string& path, const Patience& patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  path.copy(address.sun_path, path.size());
  int connection = OpenSocket();
  constexpr auto kPause = std::chrono::milliseconds(2);
  while (connection >= 0) {
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    if (::connect(connection, to, sizeof address) == 0 || errno == EISCONN) return connection;
    const int error = errno;
    const bool refused = error == ECONNREFUSED && IsPresent(path);
    const bool transient =
        refused || error == EAGAIN || error == EINTR || error == EINPROGRESS || error == EALREADY;
    errno = error;
    if (!transient || patience.over()) break;
    std::this_thread::sleep_for(kPause);
    if (!refused) continue;
    ::close(connection);  // Not every system can connect a refused socket again.
    connection = OpenSocket();
  }
  if (connection < 0) return -1;
  const int saved = errno;
  ::close(connection);
  errno = saved;
  return -1;
}

// The kernel's uid for all users that a user namespace does not map (user_namespaces(7)).
constexpr uid_t kOverflowUser = 65534;

// False if the uid stands for all users that this process's user namespace does not map.
bool IsOneUser(uid_t user) {
  if (user != kOverflowUser) return true;
  std::ifstream map("/proc/self/uid_map");
  if (!map) return true;
  std::uint64_t inside = 0, outside = 0, count = 0, mapped = 0;
  while (map >> inside >> outside >> count) mapped += count;
  return mapped >= std::numeric_limits<std::uint32_t>::max();
}

// A process trusts its own user, and root except at the user's private socket.
bool IsTrusted(uid_t user, bool is_private) {
  if (user == ::geteuid()) return IsOneUser(user);
  return user == 0 && !is_private;
}

// `what` ends with "user ".
Failure Untrusted(const std::string& what, uid_t user, const char* not_by,
                  const std::string& socket_path, bool is_private) {
  return {FailureCode::kPermissionDenied, kNoRank,
          what + std::to_string(user) + ", not " + not_by + " user " + std::to_string(::geteuid()) +
              (is_private ? "" : " or root") +
              ": that user could read and change what this process sends. " +
              (is_private ? "Have " + FolderOf(socket_path) +
                                " removed, or set XDG_RUNTIME_DIR to a folder of your own"
                          : "Run it as root's service (mlxcommctl service install)") +
              (user == kOverflowUser
                   ? ". (In a user namespace, this uid stands for all users outside of it)"
                   : "")};
}

Failure CheckListener(const std::string& path, bool is_private, int connection) {
  const std::optional<PeerCredentials> listener = FindPeer(connection);
  if (!listener) {
    return Unavailable(path, std::string("cannot identify its user: ") + std::strerror(errno));
  }
  if (IsTrusted(listener->uid, is_private)) return {};
  return Untrusted("mlxcommd at " + path + " is run by user ", listener->uid, "by", path,
                   is_private);
}

// Checks a symbolic link and its target: the owner of either could change where it leads.
Failure CheckOwner(const std::string& file, const char* is_what, const std::string& socket_path,
                   bool is_private) {
  struct stat facts{};
  for (const auto look : {::lstat, ::stat}) {
    if (look(file.c_str(), &facts) != 0) return {};  // Connecting will report the error.
    if (IsTrusted(facts.st_uid, is_private)) continue;
    return Untrusted(file + is_what + " belongs to user ", facts.st_uid, "to", socket_path,
                     is_private);
  }
  return {};
}

// Sends the hello and receives the answer, even if the send fails: an overloaded daemon refuses
// without reading.
bool ExchangeHellos(const ClientHello& hello, const Patience& patience, Dialed& dialed) {
  if (!SendWithDescriptors(dialed.connection, &hello, sizeof hello, nullptr, 0,
                           patience.left_ns()) &&
      errno != EPIPE && errno != ECONNRESET) {
    return false;
  }
  constexpr std::uint64_t kLookUpMs = 50;
  for (;;) {
    pollfd waited{dialed.connection, POLLIN, 0};
    const std::uint64_t left_ms = patience.left_ns() / 1'000'000 + 1;
    if (::poll(&waited, 1, static_cast<int>(std::min(left_ms, kLookUpMs))) > 0) break;
    if (patience.over()) return false;
  }
  return ReceiveWithDescriptors(dialed.connection, &dialed.hello, sizeof dialed.hello,
                                dialed.descriptors, kClientDescriptors, &dialed.descriptor_count,
                                patience.left_ns());
}

// After a timeout a daemon may be running; after other errors there is none.
Failure NotReached(const std::string& path, int error, const char* meanwhile) {
  if (error == ECANCELED) {
    return {FailureCode::kCancelled, kNoRank, "interrupted while waiting for mlxcommd at " + path};
  }
  if (error == ETIMEDOUT) {
    return {FailureCode::kDeadlineExceeded, kNoRank,
            "mlxcommd at " + path +
                " does not answer: check whether it is stopped or overloaded, "
                "or restart it"};
  }
  return Unavailable(path, meanwhile + std::string(std::strerror(error)));
}

void CloseAll(Dialed& dialed) {
  for (int i = 0; i < dialed.descriptor_count; ++i) ::close(dialed.descriptors[i]);
  if (dialed.connection >= 0) ::close(dialed.connection);
  dialed = Dialed{};
}

// The message may lack its terminating NUL.
std::string MessageOf(const DaemonHello& hello) {
  const char* const end = std::find(std::begin(hello.message), std::end(hello.message), '\0');
  return {std::begin(hello.message), end};
}

// On macOS, TMPDIR differs between a login, sudo, cron and launchd, but a user's ranks must find
// the same daemon. So this returns the account's cache folder.
std::string UserFolder() {
#if defined(_CS_DARWIN_USER_CACHE_DIR)
  char folder[1024] = {};
  const std::size_t bytes = ::confstr(_CS_DARWIN_USER_CACHE_DIR, folder, sizeof folder);
  if (bytes > 0 && bytes <= sizeof folder) return folder;
#endif
  return {};
}

}  // namespace

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string PrivateSocketPath() {
  const std::string below = "/mlxcommd-" + std::to_string(::getuid()) + "/mlxcommd.sock";
  for (std::string base : {Environment("XDG_RUNTIME_DIR"), UserFolder(), Environment("TMPDIR")}) {
    while (base.size() > 1 && base.back() == '/') base.pop_back();
    const std::string path = base + below;
    if (!base.empty() && path.size() < sizeof sockaddr_un{}.sun_path) return path;
  }
  return "/tmp" + below;
}

std::string PrivateLogFile(const std::string& socket_path) {
  return FolderOf(socket_path) + "/mlxcommd.log";
}

std::vector<std::string> SocketCandidates(const std::string& named) {
  if (!named.empty()) return {named};
  const std::string from_environment = Environment("MLXCOMM_SOCKET");
  if (!from_environment.empty()) return {from_environment};
  return {kServiceSocket, PrivateSocketPath()};
}

Failure CheckSocketPlace(const std::string& socket_path, bool is_private) {
  struct stat facts{};
  // Without a service, processes use a private daemon, and this folder does not matter.
  if (socket_path == kServiceSocket && ::lstat(socket_path.c_str(), &facts) != 0) return {};
  const std::string folder = FolderOf(socket_path);
  Failure failure = CheckOwner(folder, ", mlxcommd's folder,", socket_path, is_private);
  if (!failure.ok()) return failure;
  if (::stat(folder.c_str(), &facts) != 0) return {};
  if (is_private && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return {FailureCode::kPermissionDenied, kNoRank,
            folder + " must be writable by this user only: chmod go-w " + folder};
  }
  // The group may write: a new folder may be writable by its user's own group.
  if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return {FailureCode::kPermissionDenied, kNoRank,
            folder + ", mlxcommd's folder, of user " + std::to_string(facts.st_uid) +
                ", is writable by other users, who could put another socket there: chmod o-w " +
                folder};
  }
  return CheckOwner(socket_path, ", mlxcommd's socket,", socket_path, is_private);
}

std::string PresenceFile(const std::string& socket_path) { return socket_path + ".running"; }

// Tries a shared lock, so that processes that check at the same time do not mistake each other for
// the daemon.
bool IsPresent(const std::string& socket_path) {
  const int file =
      ::open(PresenceFile(socket_path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool is_held = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return is_held;
}

Failure Dial(const std::string& socket_path, ProcessRole role, std::uint64_t arena_bytes,
             std::uint64_t timeout_ns, Dialed& dialed, const std::function<bool()>& interrupted) {
  dialed = Dialed{};
  const Patience patience(timeout_ns, interrupted);
  const bool is_private = socket_path == PrivateSocketPath();
  if (Failure failure = CheckSocketPlace(socket_path, is_private); !failure.ok()) return failure;
  dialed.connection = ConnectUnix(socket_path, patience);
  if (dialed.connection < 0) return NotReached(socket_path, errno, "");
  if (Failure failure = CheckListener(socket_path, is_private, dialed.connection); !failure.ok()) {
    CloseAll(dialed);
    return failure;
  }
  const ClientHello hello{kClientHelloMagic, kHelloVersion, role, arena_bytes, 0};
  if (!ExchangeHellos(hello, patience, dialed)) {
    const int error = errno;
    CloseAll(dialed);
    return NotReached(socket_path, error, "it does not answer the hello: ");
  }
  const DaemonHello answer = dialed.hello;
  if (answer.magic != kDaemonHelloMagic) {
    CloseAll(dialed);
    return Unavailable(socket_path, "another program listens there");
  }
  if (answer.version != kHelloVersion) {
    CloseAll(dialed);
    return {FailureCode::kUnavailable, kNoRank,
            "mlxcommd at " + socket_path + " speaks version " + std::to_string(answer.version) +
                " of the local protocol, this library version " + std::to_string(kHelloVersion) +
                ": install the same release of both"};
  }
  if (answer.failure_code != FailureCode::kNone) {
    CloseAll(dialed);
    const FailureCode code =
        IsValid(answer.failure_code) ? answer.failure_code : FailureCode::kInternal;
    return {code, kNoRank, "mlxcommd at " + socket_path + " refuses: " + MessageOf(answer)};
  }
  const int expected = role == ProcessRole::kClient ? kClientDescriptors : kToolDescriptors;
  if (dialed.descriptor_count != expected) {
    CloseAll(dialed);
    return Unavailable(socket_path, "its hello lacks descriptors");
  }
  return {};
}

}  // namespace mlxcomm::queue
