// The control service's calls on one connection: the part of gRPC that a client of unary calls
// needs, over nghttp2. gRPC itself would load sixty libraries into every training process, which
// takes longer than the rest of attaching, and would leave its threads there.
//
//   Call ─▶ HEADERS, DATA ─▶ the daemon (gRPC) ─▶ HEADERS, DATA, trailers ─▶ Ended
//
// The protocol: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
//
// Owner: an attachment. Thread: calls from any; a thread of its own reads the connection, so that
// the daemon's pings are answered even without a call. Memory: the calls in flight, and at most
// kReplyBytesMax of each reply.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "client/lib/attach_table.h"

struct nghttp2_session;

namespace mlxcomm::client {

class ControlChannel {
 public:
  static constexpr std::size_t kReplyBytesMax = 4 << 20;

  // gRPC's status codes that are used here.
  enum class Status : std::uint8_t {
    kOk = 0,
    kCancelled = 1,
    kUnknown = 2,
    kDeadlineExceeded = 4,
    kUnimplemented = 12,
    kInternal = 13,
    kUnavailable = 14,  // Also: the connection has ended.
  };
  struct Ended {
    Status status = Status::kUnavailable;
    std::string details;  // grpc-status-details-bin: a Refusal.
    std::string reply;
    bool interrupted = false;
  };

  // Takes over the connection after its hello; `token` is sent with every call.
  ControlChannel(int connection, const std::string& token);
  ~ControlChannel();  // No thread may be in a call.

  // Waits for the answer; calls `interrupt` about every 50 ms. A call that is given up, because of
  // that or at timeout_ns, is cancelled at the daemon. `path`: "/mlxcomm.v1.Control/Attach".
  Ended Call(const char* path, const std::string& request, std::uint64_t timeout_ns,
             mlxcomm_interrupt interrupt);
  // For calls whose answer does not matter: waits at most patience_ns for it, then lets the call
  // continue. Returns true if the daemon answered, whatever the answer.
  bool Notify(const char* path, const std::string& request, std::uint64_t patience_ns);

  struct Stream {
    std::string request;  // Begins with gRPC's prefix of five bytes.
    std::size_t sent_bytes = 0;
    std::string received;
    std::string details;
    int status = -1;  // grpc-status; -1 if it has not arrived.
    bool ended = false;
    bool too_long = false;   // The reply so far; the rest is refused.
    bool forgotten = false;  // No thread waits for its end.
  };

 private:
  friend struct ControlChannelCallbacks;

  // The functions below are called with mutex_ held.
  std::int32_t Begin(const char* path, const std::string& request, std::uint64_t timeout_ns);
  Ended Take(std::int32_t stream);
  void GiveUp(std::int32_t stream);
  void OnStreamEnd(std::int32_t stream);
  void Flush();
  [[nodiscard]] bool Write(const std::uint8_t* data, std::size_t bytes);

  void ReadUntilTheEnd();

  const int connection_;
  const std::string token_;  // Sent as metadata, in base64.
  std::mutex mutex_;
  std::condition_variable changed_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, std::unique_ptr<Stream>> streams_;
  bool lost_ = false;
  std::thread reader_;
};

}  // namespace mlxcomm::client
