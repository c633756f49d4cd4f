// What the frames' bytes go through: a socket, as they are or in TLS (tcp/tls_stream.h), or
// the messages of a queue pair (rdma/message_stream.h). Writer and reader see the same calls.
//
// The stream does not own the socket, if there is one: each call passes it, because the stream
// begins with the hello's, while asio has it. Nothing waits.
//
// Owner: a rail; before that the coroutine that makes it. Thread: the one that drives the rail,
// one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>

struct iovec;

namespace mlxcomm::rail {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // As sendmsg and recvmsg: how many bytes of the parts, or -1 and errno. EBADMSG: what has
  // come was not sent by the other side. Read: 0, the other side has closed.
  virtual ssize_t Write(int socket, iovec* parts, int count) = 0;
  virtual ssize_t Read(int socket, iovec* parts, int count) = 0;
  // Write has taken something that the socket has not. Flush hands it as much of that as it
  // takes: how many bytes, or -1 and errno.
  virtual bool HasUnsent() const { return false; }
  virtual ssize_t Flush(int /*socket*/) { return 0; }
  // How many of all bytes that Write has taken, from the first on, are not read any more where
  // they lay.
  virtual std::uint64_t released() const { return ~std::uint64_t{0}; }
  // A read that gives less than was asked for has taken all that had come.
  virtual bool ReadsAllThereIs() const { return false; }
  // There may be something to read that the socket does not show any more.
  virtual bool HasUnread() const { return false; }
  // Some of it was lost: what is read from here on begins with a header. Says so once, when
  // all before it has been read; until then Read gives nothing.
  virtual bool TakeGap() { return false; }
  // Nothing more will be written.
  virtual void End(int /*socket*/) {}
  virtual bool is_encrypted() const = 0;
};

class PlainStream final : public ByteStream {
 public:
  ssize_t Write(int socket, iovec* parts, int count) override;
  ssize_t Read(int socket, iovec* parts, int count) override;
  // epoll(7), "Questions and answers"; macOS's sockets do as well. Their end takes a read of its own.
  bool ReadsAllThereIs() const override { return true; }
  bool is_encrypted() const override { return false; }
};

}  // namespace mlxcomm::rail
