#include "proto/queue/dial.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "proto/queue/descriptor_passing.h"

namespace mlxcomm::queue {
namespace {

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Failure Unavailable(const std::string& path, const std::string& why) {
  return {FailureCode::kUnavailable, kNoRank, "no mlxcommd at " + path + ": " + why};
}

int ConnectUnix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  path.copy(address.sun_path, path.size());
  const int connection = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (connection < 0) return -1;
  ::fcntl(connection, F_SETFD, FD_CLOEXEC);
#if defined(SO_NOSIGPIPE)
  const int on = 1;
  ::setsockopt(connection, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return connection;
  }
  const int saved = errno;
  ::close(connection);
  errno = saved;
  return -1;
}

void CloseAll(Dialed& dialed) {
  for (int i = 0; i < dialed.descriptor_count; ++i) ::close(dialed.descriptors[i]);
  if (dialed.connection >= 0) ::close(dialed.connection);
  dialed = Dialed{};
}

// The message of a refusal, whatever bytes the other side put there.
std::string MessageOf(const DaemonHello& hello) {
  const char* const end = std::find(std::begin(hello.message), std::end(hello.message), '\0');
  return {std::begin(hello.message), end};
}

}  // namespace

std::string PrivateSocketPath() {
  std::string base = Environment("XDG_RUNTIME_DIR");
  if (base.empty()) base = Environment("TMPDIR");
  if (base.empty()) base = "/tmp";
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  return base + "/mlxcommd-" + std::to_string(::getuid()) + "/mlxcommd.sock";
}

std::vector<std::string> SocketCandidates(const std::string& named) {
  if (!named.empty()) return {named};
  const std::string from_environment = Environment("MLXCOMM_SOCKET");
  if (!from_environment.empty()) return {from_environment};
  return {kServiceSocket, PrivateSocketPath()};
}

Failure Dial(const std::string& socket_path, ProcessRole role, std::uint64_t arena_bytes,
             std::uint64_t timeout_ns, Dialed& dialed) {
  dialed = Dialed{};
  dialed.connection = ConnectUnix(socket_path);
  if (dialed.connection < 0) return Unavailable(socket_path, std::strerror(errno));
  const ClientHello hello{kClientHelloMagic, kHelloVersion, role, arena_bytes, 0};
  if (!SendWithDescriptors(dialed.connection, &hello, sizeof hello, nullptr, 0, timeout_ns) ||
      !ReceiveWithDescriptors(dialed.connection, &dialed.hello, sizeof dialed.hello,
                              dialed.descriptors, kClientDescriptors, &dialed.descriptor_count,
                              timeout_ns)) {
    const std::string why = std::strerror(errno);
    CloseAll(dialed);
    return Unavailable(socket_path, "it does not answer the hello (" + why + ")");
  }
  const DaemonHello answer = dialed.hello;
  if (answer.magic != kDaemonHelloMagic) {
    CloseAll(dialed);
    return Unavailable(socket_path, "what listens there is not mlxcommd");
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
    return Unavailable(socket_path, "it sent a hello without its descriptors");
  }
  return {};
}

}  // namespace mlxcomm::queue
