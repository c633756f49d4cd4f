#include "tests/bench/peers/two_rank_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "proto/queue/no_signal.h"

namespace mlxcomm::bench {
namespace {

constexpr std::chrono::seconds kPatience{20};  // Until the other rank has started.
constexpr std::chrono::milliseconds kBetweenTries{1};

[[noreturn]] void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void Enable(int socket, int level, int option, const char* name) {
  const int yes = 1;
  if (setsockopt(socket, level, option, &yes, sizeof yes) != 0) {
    Fail(std::string("cannot set ") + name);
  }
}

using Address = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Address Parse(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw std::runtime_error("not ADDRESS:PORT: " + text);
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(text.substr(0, colon).c_str(), text.substr(colon + 1).c_str(), &wanted, &found);
  if (error != 0) {
    throw std::runtime_error("not ADDRESS:PORT: " + text + ": " + gai_strerror(error));
  }
  return {found, &freeaddrinfo};
}

FileDescriptor NewSocket(const addrinfo& address) {
  const int made = socket(address.ai_family, SOCK_STREAM, 0);
  if (made < 0) Fail("cannot make a socket");
  return FileDescriptor(made);
}

FileDescriptor Accept(const addrinfo& address, const std::string& text) {
  const FileDescriptor listening = NewSocket(address);
  Enable(listening.get(), SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR");
  if (bind(listening.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(listening.get(), 1) != 0) {
    Fail("cannot listen at " + text);
  }
  pollfd waited{listening.get(), POLLIN, 0};
  const std::chrono::milliseconds patience = kPatience;
  const int ready = poll(&waited, 1, static_cast<int>(patience.count()));
  if (ready < 0) Fail("cannot wait at " + text);
  if (ready == 0) {
    throw std::runtime_error("rank 1 did not connect to " + text + " within " +
                             std::to_string(kPatience.count()) + " s");
  }
  const int accepted = accept(listening.get(), nullptr, nullptr);
  if (accepted < 0) Fail("cannot accept a connection at " + text);
  return FileDescriptor(accepted);
}

FileDescriptor Connect(const addrinfo& address, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    FileDescriptor connecting = NewSocket(address);  // A refused one cannot be used again.
    if (connect(connecting.get(), address.ai_addr, address.ai_addrlen) == 0) return connecting;
    if (errno != ECONNREFUSED) Fail("cannot connect to rank 0 at " + text);
    if (std::chrono::steady_clock::now() >= deadline) {
      Fail("cannot connect to rank 0 at " + text + ", tried for " +
           std::to_string(kPatience.count()) + " s");
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

// The errors of send and receive when nothing can be done now.
bool IsForNow(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

RankConnection::RankConnection(std::uint32_t rank, const std::string& address) {
  const Address parsed = Parse(address);
  socket_ = rank == 0 ? Accept(*parsed, address) : Connect(*parsed, address);
  if (!queue::SilenceSignals(socket_.get())) Fail("cannot turn off SIGPIPE");
  Enable(socket_.get(), IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY");
  const int flags = fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    Fail("cannot make the connection non-blocking");
  }
}

std::size_t RankConnection::Send(std::span<const std::byte> data) {
  if (data.empty()) return 0;
  const ssize_t sent = send(socket_.get(), data.data(), data.size(), queue::kNoSignal);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (!IsForNow(errno)) Fail("cannot send to the other rank");
  return 0;
}

std::size_t RankConnection::Receive(std::span<std::byte> room) {
  if (room.empty()) return 0;
  const ssize_t received = recv(socket_.get(), room.data(), room.size(), 0);
  if (received > 0) return static_cast<std::size_t>(received);
  if (received == 0) throw std::runtime_error("the other rank has closed the connection");
  if (!IsForNow(errno)) Fail("cannot receive from the other rank");
  return 0;
}

}  // namespace mlxcomm::bench
