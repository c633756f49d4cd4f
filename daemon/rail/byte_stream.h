// Carries the frames' bytes: over a socket, as they are or in TLS (tcp/tls_stream.h), or in
// the messages of another transport. Writer and reader see the same calls.
//
// Each call passes the socket, if any, because asio owns it during the hello.
#pragma once

#include <sys/types.h>

#include <cstdint>

struct iovec;

namespace mlxcomm::rail {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Like sendmsg and recvmsg; EBADMSG: the peer did not send these bytes.
  virtual ssize_t Write(int socket, iovec* parts, int count) = 0;
  virtual ssize_t Read(int socket, iovec* parts, int count) = 0;
  // Returns whether Write took bytes that the socket did not. Flush passes them on and returns like
  // Write.
  virtual bool HasUnsent() const { return false; }
  virtual ssize_t Flush(int /*socket*/) { return 0; }
  // Returns how many of all bytes written so far the stream no longer reads from the caller's
  // memory.
  virtual std::uint64_t released() const { return ~std::uint64_t{0}; }
  // Returns whether a short read has taken everything that had arrived.
  virtual bool DrainsOnShortRead() const { return false; }
  // Returns whether there may be bytes that poll() on the socket does not show.
  virtual bool HasUnread() const { return false; }
  // Returns true once, when everything before a loss has been read; the next byte begins a header.
  virtual bool TakeGap() { return false; }
  // Nothing more will be written.
  virtual void End(int /*socket*/) {}
  virtual bool is_encrypted() const = 0;
};

class PlainStream final : public ByteStream {
 public:
  ssize_t Write(int socket, iovec* parts, int count) override;
  ssize_t Read(int socket, iovec* parts, int count) override;
  // See epoll(7), "Questions and answers"; macOS agrees. The end of the stream takes another read.
  bool DrainsOnShortRead() const override { return true; }
  bool is_encrypted() const override { return false; }
};

}  // namespace mlxcomm::rail
