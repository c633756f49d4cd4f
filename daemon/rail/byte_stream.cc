#include "daemon/rail/byte_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include "proto/queue/socket_options.h"

namespace mlxcomm::rail {
namespace {

msghdr MessageOf(iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(count);
  return message;
}

}  // namespace

ssize_t PlainStream::Write(int socket, iovec* parts, int count) {
  const msghdr message = MessageOf(parts, count);
  return ::sendmsg(socket, &message, queue::kNoSignal | MSG_DONTWAIT);
}

ssize_t PlainStream::Read(int socket, iovec* parts, int count) {
  msghdr message = MessageOf(parts, count);
  return ::recvmsg(socket, &message, MSG_DONTWAIT);
}

}  // namespace mlxcomm::rail
