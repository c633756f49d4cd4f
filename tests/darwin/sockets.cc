// Sockets as on macOS.
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace {

constexpr int kNoSigPipe = 0x1022;    // SO_NOSIGPIPE
constexpr int kBoundInterface = 125;  // IPV6_BOUND_IF
constexpr int kLevelLocal = 0;        // SOL_LOCAL
constexpr int kPeerPid = 0x002;       // LOCAL_PEERPID
// SO_NOSIGPIPE belongs to the socket, whichever process has it; so does its priority, which is not
// used otherwise here.
constexpr int kSilent = 5;

int FlagsFor(int socket, int flags) {
  int priority = 0;
  socklen_t length = sizeof priority;
  const bool silent =
      ::getsockopt(socket, SOL_SOCKET, SO_PRIORITY, &priority, &length) == 0 && priority == kSilent;
  return silent ? flags | MSG_NOSIGNAL : flags;
}

}  // namespace

extern "C" {

int __real_connect(int socket, const sockaddr* to, socklen_t length);
int __real_setsockopt(int socket, int level, int option, const void* value, socklen_t length);
int __real_getsockopt(int socket, int level, int option, void* value, socklen_t* length);
ssize_t __real_send(int socket, const void* data, size_t bytes, int flags);
ssize_t __real_sendmsg(int socket, const msghdr* message, int flags);

int __wrap_connect(int socket, const sockaddr* to, socklen_t length) {
  const int done = __real_connect(socket, to, length);
  if (done != 0 && errno == EAGAIN && to->sa_family == AF_UNIX) errno = ECONNREFUSED;
  return done;
}

int __wrap_setsockopt(int socket, int level, int option, const void* value, socklen_t length) {
  int number = 0;
  if (length >= sizeof number) std::memcpy(&number, value, sizeof number);
  if (level == SOL_SOCKET && option == kNoSigPipe) {
    const int mark = number != 0 ? kSilent : 0;
    return __real_setsockopt(socket, SOL_SOCKET, SO_PRIORITY, &mark, sizeof mark);
  }
  if (level == IPPROTO_IPV6 && option == kBoundInterface) {
    char name[IF_NAMESIZE] = {};
    if (::if_indextoname(static_cast<unsigned>(number), name) == nullptr) return -1;
    return __real_setsockopt(socket, SOL_SOCKET, SO_BINDTODEVICE, name,
                             static_cast<socklen_t>(std::strlen(name)));
  }
  return __real_setsockopt(socket, level, option, value, length);
}

int __wrap_getsockopt(int socket, int level, int option, void* value, socklen_t* length) {
  int domain = 0;
  socklen_t size = sizeof domain;
  if (level == kLevelLocal && option == kPeerPid && *length >= sizeof(pid_t) &&
      __real_getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX) {
    ucred peer{};
    socklen_t peer_size = sizeof peer;
    if (__real_getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0) return -1;
    std::memcpy(value, &peer.pid, sizeof peer.pid);
    *length = sizeof peer.pid;
    return 0;
  }
  return __real_getsockopt(socket, level, option, value, length);
}

ssize_t __wrap_send(int socket, const void* data, size_t bytes, int flags) {
  return __real_send(socket, data, bytes, FlagsFor(socket, flags));
}

ssize_t __wrap_sendmsg(int socket, const msghdr* message, int flags) {
  return __real_sendmsg(socket, message, FlagsFor(socket, flags));
}

int getpeereid(int socket, uid_t* uid, gid_t* gid) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (__real_getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
  *uid = peer.uid;
  *gid = peer.gid;
  return 0;
}
}
