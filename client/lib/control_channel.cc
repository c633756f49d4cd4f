#include "client/lib/control_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include <nghttp2/nghttp2.h>

#include "proto/queue/hello.h"
#include "proto/queue/socket_options.h"
#include "proto/system/blocked_signals.h"

namespace mlxcomm::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPrefixBytes = 5;  // A gRPC message's prefix: compressed flag and length.
constexpr auto kAskAgain = std::chrono::milliseconds(50);
// A daemon that does not read a few hundred bytes in this time counts as gone. It makes a user who
// sends too many requests wait for up to five seconds (daemon/intake/guard/frame_meter.h).
constexpr auto kWritePatience = std::chrono::seconds(8);
// Calls that no thread waits for any more. A daemon that has left this many unanswered gets no
// more.
constexpr std::size_t kStreamsMax = 64;
constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string ToBase64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<std::uint8_t>(bytes[i + j]) : 0u);
    }
    const std::size_t digits = std::min<std::size_t>(3, bytes.size() - i) + 1;
    for (std::size_t j = 0; j < digits; ++j) text += kDigits[group >> (18 - 6 * j) & 63];
  }
  return text;
}

// Stops at the first character that is not base64, such as padding.
std::string FromBase64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const char* const digit = c == 0 ? nullptr : std::strchr(kDigits, c);
    if (digit == nullptr) break;
    bits = bits << 6 | static_cast<std::uint32_t>(digit - kDigits);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::string WithPrefix(const std::string& message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  std::string prefixed(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) prefixed += static_cast<char>(size >> shift & 0xff);
  return prefixed + message;
}

// False if it is not exactly one whole, uncompressed message.
bool WithoutPrefix(const std::string& received, std::string& message) {
  if (received.size() < kPrefixBytes || received[0] != 0) return false;
  std::size_t size = 0;
  for (std::size_t i = 1; i < kPrefixBytes; ++i) {
    size = size << 8 | static_cast<std::uint8_t>(received[i]);
  }
  if (size != received.size() - kPrefixBytes) return false;
  message = received.substr(kPrefixBytes);
  return true;
}

// Returns at most eight digits and a unit.
std::string TimeoutText(std::uint64_t timeout_ns) {
  const std::uint64_t ms = timeout_ns / 1'000'000 + 1;
  if (ms < 100'000'000) return std::to_string(ms) + "m";
  return std::to_string(std::min<std::uint64_t>(ms / 1000, 99'999'999)) + "S";
}

nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

// nghttp2's callbacks; called with the channel's mutex held, from Flush and from the reader.
struct ControlChannelCallbacks {
  static ControlChannel& Of(void* user) { return *static_cast<ControlChannel*>(user); }
  static ControlChannel::Stream* Find(void* user, std::int32_t id) {
    const auto found = Of(user).streams_.find(id);
    return found == Of(user).streams_.end() ? nullptr : found->second.get();
  }

  static ssize_t ReadRequest(nghttp2_session*, std::int32_t id, std::uint8_t* to, std::size_t most,
                             std::uint32_t* flags, nghttp2_data_source*, void* user) {
    ControlChannel::Stream* const stream = Find(user, id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::size_t bytes = std::min(most, stream->request.size() - stream->sent_bytes);
    // Bytes, not text. NOLINTNEXTLINE(bugprone-not-null-terminated-result)
    std::memcpy(to, stream->request.data() + stream->sent_bytes, bytes);
    stream->sent_bytes += bytes;
    if (stream->sent_bytes == stream->request.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(bytes);
  }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes,
                      std::uint8_t, void* user) {
    ControlChannel::Stream* const stream = Find(user, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const std::string_view key(reinterpret_cast<const char*>(name), name_bytes);
    const std::string_view text(reinterpret_cast<const char*>(value), value_bytes);
    if (key == "grpc-status") {
      std::from_chars(text.data(), text.data() + text.size(), stream->status);
    } else if (key == "grpc-status-details-bin") {
      stream->details = FromBase64(text);
    }
    return 0;
  }

  static int OnData(nghttp2_session* session, std::uint8_t, std::int32_t id,
                    const std::uint8_t* data, std::size_t bytes, void* user) {
    ControlChannel::Stream* const stream = Find(user, id);
    if (stream == nullptr) return 0;
    if (stream->too_long) return 0;
    if (stream->received.size() + bytes > ControlChannel::kReplyBytesMax) {
      stream->too_long = true;
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_ENHANCE_YOUR_CALM);
      return 0;
    }
    stream->received.append(reinterpret_cast<const char*>(data), bytes);
    return 0;
  }

  // A request that would begin after the daemon announced its end.
  static int OnNotSent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    if (frame->hd.type == NGHTTP2_HEADERS) Of(user).OnStreamEnd(frame->hd.stream_id);
    return 0;
  }

  static int OnClose(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    Of(user).OnStreamEnd(id);
    return 0;
  }
};

ControlChannel::ControlChannel(int connection, const std::string& token)
    : connection_(connection), token_(ToBase64(token)) {
  ::fcntl(connection_, F_SETFL, ::fcntl(connection_, F_GETFL) | O_NONBLOCK);
  nghttp2_session_callbacks* callbacks = nullptr;
  lost_ = nghttp2_session_callbacks_new(&callbacks) != 0;
  if (!lost_) {
    nghttp2_session_callbacks_set_on_header_callback(callbacks, ControlChannelCallbacks::OnHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                              ControlChannelCallbacks::OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks,
                                                           ControlChannelCallbacks::OnClose);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks,
                                                             ControlChannelCallbacks::OnNotSent);
    lost_ = nghttp2_session_client_new(&session_, callbacks, this) != 0;
    nghttp2_session_callbacks_del(callbacks);
  }
  if (lost_) return;  // No memory: calls report that the daemon is lost.
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 1);
  {
    const std::lock_guard lock(mutex_);
    Flush();
  }
  const BlockedSignals blocked;
  try {
    reader_ = std::thread([this] { ReadUntilTheEnd(); });
  } catch (const std::system_error&) {
    nghttp2_session_del(session_);
    ::close(connection_);
    throw;
  }
}

ControlChannel::~ControlChannel() {
  ::shutdown(connection_, SHUT_RDWR);
  if (reader_.joinable()) reader_.join();
  nghttp2_session_del(session_);
  ::close(connection_);
}

void ControlChannel::ReadUntilTheEnd() {
  std::uint8_t bytes[16 * 1024];
  for (;;) {
    pollfd waited{connection_, POLLIN, 0};
    if (::poll(&waited, 1, -1) < 0 && errno != EINTR) break;
    const ssize_t got = ::recv(connection_, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) continue;
    if (got <= 0) break;
    const std::lock_guard lock(mutex_);
    if (nghttp2_session_mem_recv(session_, bytes, static_cast<std::size_t>(got)) < 0) break;
    Flush();  // Acknowledgements, and requests that had to wait for the daemon's permission.
    // Neither: the bytes were not HTTP/2, or the daemon has announced its end.
    const bool goes_on =
        nghttp2_session_want_read(session_) || nghttp2_session_want_write(session_);
    if (lost_ || !goes_on) break;
  }
  const std::lock_guard lock(mutex_);
  lost_ = true;
  changed_.notify_all();
}

bool ControlChannel::Write(const std::uint8_t* data, std::size_t bytes) {
  const auto deadline = Clock::now() + kWritePatience;
  while (bytes > 0) {
    const ssize_t sent = ::send(connection_, data, bytes, queue::kNoSignal);
    if (sent > 0) {
      data += sent;
      bytes -= static_cast<std::size_t>(sent);
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd waited{connection_, POLLOUT, 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) return false;
      ::poll(&waited, 1, static_cast<int>(left.count()));
    } else if (sent == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

void ControlChannel::Flush() {
  const std::uint8_t* data = nullptr;
  ssize_t bytes = 0;
  while (!lost_ && (bytes = nghttp2_session_mem_send(session_, &data)) > 0) {
    if (!Write(data, static_cast<std::size_t>(bytes))) lost_ = true;
  }
  if (bytes < 0) lost_ = true;
  if (lost_) changed_.notify_all();
}

std::int32_t ControlChannel::Begin(const char* path, const std::string& request,
                                   std::uint64_t timeout_ns) {
  if (lost_) return -1;
  auto stream = std::make_unique<Stream>();
  stream->request = WithPrefix(request);
  const std::string timeout = TimeoutText(timeout_ns);
  const nghttp2_nv headers[] = {Header(":method", "POST"),
                                Header(":scheme", "http"),
                                Header(":path", path),
                                Header(":authority", "mlxcommd"),
                                Header("te", "trailers"),
                                Header("content-type", "application/grpc"),
                                Header("user-agent", "mlxcomm"),
                                Header("grpc-timeout", timeout),
                                Header(queue::kTokenMetadataKey, token_)};
  nghttp2_data_provider provider{};
  provider.read_callback = ControlChannelCallbacks::ReadRequest;
  const std::int32_t id =
      nghttp2_submit_request(session_, nullptr, headers, std::size(headers), &provider, nullptr);
  if (id < 0) return -1;
  streams_[id] = std::move(stream);
  Flush();
  return id;
}

void ControlChannel::OnStreamEnd(std::int32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second->ended = true;
  if (found->second->forgotten) streams_.erase(found);
  changed_.notify_all();
}

void ControlChannel::GiveUp(std::int32_t id) {
  streams_.at(id)->forgotten = true;
  if (lost_) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  Flush();
}

ControlChannel::Ended ControlChannel::Take(std::int32_t id) {
  Ended end;
  const std::unique_ptr<Stream> stream = std::move(streams_.at(id));
  streams_.erase(id);
  if (stream->too_long) {
    end.status = Status::kInternal;
    return end;
  }
  if (!stream->ended || stream->status < 0) return end;  // The connection had already ended.
  end.status = static_cast<Status>(std::min(stream->status, 255));
  end.details = std::move(stream->details);
  if (end.status == Status::kOk && !WithoutPrefix(stream->received, end.reply)) {
    end.status = Status::kInternal;
  }
  return end;
}

ControlChannel::Ended ControlChannel::Call(const char* path, const std::string& request,
                                           std::uint64_t timeout_ns, mlxcomm_interrupt interrupt) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  std::unique_lock lock(mutex_);
  const std::int32_t id = Begin(path, request, timeout_ns);
  if (id < 0) return {};
  const auto over = [&] { return lost_ || streams_.at(id)->ended; };
  while (!over()) {
    const auto until = std::min(deadline, Clock::now() + kAskAgain);
    if (changed_.wait_until(lock, until, over)) break;
    Ended end;
    end.status = Status::kDeadlineExceeded;
    if (Clock::now() < deadline) {
      if (interrupt.interrupted == nullptr) continue;
      lock.unlock();
      end.interrupted = interrupt.interrupted(interrupt.context) != 0;
      lock.lock();
      if (!end.interrupted || over()) continue;
      end.status = Status::kCancelled;
    }
    GiveUp(id);
    return end;
  }
  return Take(id);
}

bool ControlChannel::Notify(const char* path, const std::string& request,
                            std::uint64_t patience_ns) {
  constexpr std::uint64_t kTimeoutNs = 10'000'000'000;
  std::unique_lock lock(mutex_);
  if (streams_.size() >= kStreamsMax) return false;
  const std::int32_t id = Begin(path, request, kTimeoutNs);
  if (id < 0) return false;
  const auto over = [&] { return lost_ || streams_.at(id)->ended; };
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(patience_ns), over)) {
    streams_.at(id)->forgotten = true;
    return false;
  }
  const bool answered = streams_.at(id)->ended && streams_.at(id)->status >= 0;
  streams_.erase(id);
  return answered;
}

}  // namespace mlxcomm::client
