// What goes through the socket of a rail: the frames' bytes as they are, or TLS
// (tls_stream.h). Writer and reader see the same calls either way.
//
// The stream does not own the socket and is told it with each call, for it begins with the
// hello's, where asio has it. Nothing waits.
//
// Owner: TcpRail; before that the coroutine that makes it. Thread: whoever drives the rail,
// one at a time. Memory: none here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

struct iovec;

namespace mlxcomm::fabric {

class TcpStream {
 public:
  virtual ~TcpStream() = default;

  // As sendmsg and recvmsg: so many bytes of the parts, or -1 and errno. EBADMSG: what has
  // come was not sent by the other side. Read: 0, the other side has closed.
  virtual ssize_t Write(int socket, iovec* parts, int count) = 0;
  virtual ssize_t Read(int socket, iovec* parts, int count) = 0;
  // What Write has taken and the socket has not; Flush gives it what it takes of that: so
  // many bytes, or -1 and errno.
  virtual bool HasUnsent() const { return false; }
  virtual ssize_t Flush(int /*socket*/) { return 0; }
  // There may be something to read that the socket does not show any more.
  virtual bool HasUnread() const { return false; }
  // Nothing more will be written.
  virtual void End(int /*socket*/) {}
  virtual bool is_encrypted() const = 0;
};

class PlainStream final : public TcpStream {
 public:
  ssize_t Write(int socket, iovec* parts, int count) override;
  ssize_t Read(int socket, iovec* parts, int count) override;
  bool is_encrypted() const override { return false; }
};

}  // namespace mlxcomm::fabric
