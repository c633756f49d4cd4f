#if defined(__APPLE__)
#define __APPLE_USE_RFC_3542 1  // IPV6_PKTINFO as in the RFC.
#endif
#include "daemon/platform/multicast_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#if defined(__linux__)
#include <linux/filter.h>
#include <linux/sock_diag.h>
#endif

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace mlxcomm::platform {
namespace {

bool Set(const FileDescriptor& socket, int level, int option, int value) {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

sockaddr_in6 AddressOf(const MulticastSocket::Place& place) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
#if defined(__APPLE__)
  address.sin6_len = sizeof address;
#endif
  address.sin6_port = htons(place.port);
  std::memcpy(&address.sin6_addr, place.group.data(), place.group.size());
  address.sin6_scope_id = place.index;
  return address;
}

// Receives only from this interface. Returns 0 or errno.
int BindToInterface(const FileDescriptor& socket, const MulticastSocket::Place& place) {
#if defined(IPV6_BOUND_IF)  // macOS.
  return Set(socket, IPPROTO_IPV6, IPV6_BOUND_IF, static_cast<int>(place.index)) ? 0 : errno;
#else
  const std::string& name = place.interface;
  const auto bytes = static_cast<socklen_t>(name.size());
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, name.data(), bytes) == 0) return 0;
  // Before Linux 5.7 this requires root; Receive then checks the index.
  return errno == EPERM ? 0 : errno;
#endif
}

// Lets the kernel drop other datagrams before they wake the process, if it can.
bool Filter([[maybe_unused]] const FileDescriptor& socket, const MulticastSocket::Place& place) {
  if (place.bytes == 0) return true;
#if defined(SO_ATTACH_FILTER)
  constexpr std::uint32_t kHeadBytes = 8;  // The UDP header precedes the payload.
  std::array<std::uint32_t, 2> words;
  std::memcpy(words.data(), place.beginning.data(), sizeof words);
  std::array<sock_filter, 8> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kHeadBytes + place.bytes, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kHeadBytes),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[0]), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kHeadBytes + sizeof words[0]),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[1]), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter = {program.size(), program.data()};
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
#else
  return true;
#endif
}

bool Prepare(const FileDescriptor& socket, const MulticastSocket::Place& place) {
  const auto index = static_cast<int>(place.index);
  if (!socket.valid() || ::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0 ||
      ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return false;
  }
  // To share a group, Linux needs the first option, BSD the second.
  if (!Set(socket, SOL_SOCKET, SO_REUSEADDR, 1)) return false;
#if defined(__APPLE__)
  if (!Set(socket, SOL_SOCKET, SO_REUSEPORT, 1)) return false;
#endif
  if (!Filter(socket, place) ||
      !Set(socket, SOL_SOCKET, SO_RCVBUF, MulticastSocket::kReceiveBytesMax) ||
      !Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1) ||
      !Set(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) ||
      !Set(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, index) ||
      !Set(socket, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 1) ||
      !Set(socket, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0)) {
    return false;
  }
  if (const int why = BindToInterface(socket, place); why != 0) {
    errno = why;
    return false;
  }
  // Binds to the group's address, so that datagrams to other addresses are not received.
  const sockaddr_in6 address = AddressOf(place);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return false;
  }
  ipv6_mreq group{};
  group.ipv6mr_multiaddr = address.sin6_addr;
  group.ipv6mr_interface = place.index;
  return ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group) == 0;
}

}  // namespace

absl::StatusOr<MulticastSocket> MulticastSocket::Open(const Place& place) {
  FileDescriptor socket(::socket(AF_INET6, SOCK_DGRAM, 0));
  if (!Prepare(socket, place)) {
    return absl::UnavailableError(absl::StrCat("no multicast on ", place.interface, ", port ",
                                               place.port, ": ", std::strerror(errno)));
  }
  return MulticastSocket(std::move(socket), place);
}

absl::Status MulticastSocket::Send(std::span<const std::uint8_t> datagram) const {
  sockaddr_in6 to = AddressOf(place_);
  iovec bytes = {const_cast<std::uint8_t*>(datagram.data()), datagram.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = sizeof to;
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  // Sends from the address that the datagram names, even if the interface has others.
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = IPPROTO_IPV6;
  head->cmsg_type = IPV6_PKTINFO;
  head->cmsg_len = CMSG_LEN(sizeof(in6_pktinfo));
  in6_pktinfo from{};
  std::memcpy(&from.ipi6_addr, place_.source.data(), place_.source.size());
  from.ipi6_ifindex = place_.index;
  std::memcpy(CMSG_DATA(head), &from, sizeof from);
  for (;;) {
    const ssize_t sent = ::sendmsg(socket_.get(), &message, 0);
    if (sent >= 0) return absl::OkStatus();  // A datagram is sent as a whole.
    if (errno == EINTR) continue;
    const int error = errno;
    const std::string text =
        absl::StrCat("cannot send on ", place_.interface, ": ", std::strerror(error));
    return error == EHOSTUNREACH ? absl::FailedPreconditionError(text)
                                 : absl::UnavailableError(text);
  }
}

std::optional<MulticastSocket::Received> MulticastSocket::Receive(
    std::span<std::uint8_t> into) const {
  sockaddr_in6 from{};
  iovec bytes = {into.data(), into.size()};
  alignas(cmsghdr) char control[256];
  for (;;) {
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    Received received;
    received.bytes = static_cast<std::size_t>(got);
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != IPPROTO_IPV6 || head->cmsg_type != IPV6_PKTINFO) continue;
      in6_pktinfo where{};
      std::memcpy(&where, CMSG_DATA(head), sizeof where);
      received.is_here = where.ipi6_ifindex == place_.index;
    }
    if (!IN6_IS_ADDR_LINKLOCAL(&from.sin6_addr)) received.is_here = false;
    std::memcpy(received.from.data(), &from.sin6_addr, received.from.size());
    return received;
  }
}

std::uint64_t MulticastSocket::CountUnread() const {
#if defined(SO_MEMINFO)
  std::array<std::uint32_t, SK_MEMINFO_VARS> facts{};
  socklen_t bytes = sizeof facts;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_MEMINFO, facts.data(), &bytes) == 0)
    return facts[SK_MEMINFO_DROPS];
#endif
  return 0;
}

}  // namespace mlxcomm::platform
