#include "daemon/rail/tcp/tls_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "absl/strings/str_cat.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::rail {

// OpenSSL's callbacks, in a struct that may access the stream's members.
struct TlsSocketCalls {
  static TlsStream& Of(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }
  static int Read(BIO* bio, char* bytes, int count) {
    BIO_clear_retry_flags(bio);
    const int got = Of(bio).Receive(bytes, count);
    if (got < 0 && Of(bio).receive_error_ == 0) BIO_set_retry_read(bio);
    return got;
  }
  static int Write(BIO* bio, const char* bytes, int count) {
    BIO_clear_retry_flags(bio);
    const int kept = Of(bio).Keep(bytes, count);
    if (kept < 0) BIO_set_retry_write(bio);
    return kept;
  }
  static long Control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    return command == BIO_CTRL_EOF && Of(bio).receive_ended_ ? 1 : 0;
  }
  static BIO_METHOD* Methods() {
    static BIO_METHOD* const methods = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rail");
      if (made == nullptr) return made;
      BIO_meth_set_read(made, Read);
      BIO_meth_set_write(made, Write);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    return methods;
  }

  // The same for all, because each connection has its own key.
  static constexpr unsigned char kIdentity[] = "mlxcomm";
  static SSL_SESSION* Session(SSL* ssl) {
    const auto& stream = *static_cast<const TlsStream*>(SSL_get_app_data(ssl));
    constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
    const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
    SSL_SESSION* const session = SSL_SESSION_new();
    if (session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, stream.key_.data(), stream.key_.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
      return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
  }
  static int UseSession(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                        std::size_t* identity_bytes, SSL_SESSION** session) {
    *session = nullptr;
    // A retry with a digest that does not match the key: no session, so no connection.
    if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
    *session = Session(ssl);
    *identity = kIdentity;
    *identity_bytes = sizeof kIdentity - 1;
    return *session != nullptr ? 1 : 0;
  }
  static int FindSession(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes,
                         SSL_SESSION** session) {
    *session = nullptr;
    if (identity_bytes != sizeof kIdentity - 1 ||
        std::memcmp(identity, kIdentity, identity_bytes) != 0) {
      return 1;
    }
    *session = Session(ssl);
    return *session != nullptr ? 1 : 0;
  }
};

namespace {

constexpr std::size_t kRecordBytesMax = SSL3_RT_MAX_PLAIN_LENGTH;
// A record with its overhead, and a key change before it.
constexpr std::size_t kRecordRoom = kRecordBytesMax + 512;
// Records made for one send call.
constexpr std::size_t kUnsentRecordBytesMax = 8 * kRecordRoom;
constexpr std::size_t kReadBufferBytes = 128 * 1024;

}  // namespace

void TlsStream::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void TlsStream::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

absl::StatusOr<std::unique_ptr<TlsStream>> TlsStream::Create(Role role, const DerivedKey& key,
                                                             std::uint64_t records_per_key) {
  std::unique_ptr<TlsStream> stream(new TlsStream(key, records_per_key));
  if (absl::Status status = stream->SetUp(role); !status.ok()) return status;
  return stream;
}

TlsStream::TlsStream(const DerivedKey& key, std::uint64_t records_per_key)
    : key_(key),
      records_per_key_(records_per_key),
      gathered_(kRecordBytesMax),
      unsent_(kUnsentRecordBytesMax) {}

absl::Status TlsStream::SetUp(Role role) {
  const bool is_client = role == Role::kDialer;
  context_.reset(SSL_CTX_new(is_client ? TLS_client_method() : TLS_server_method()));
  SSL_CTX* const context = context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519") != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1) {
    return absl::InternalError("OpenSSL cannot be set up for TLS 1.3");
  }
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // Rejects a server that presents a certificate instead of the key.
  if (is_client) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadBufferBytes);
  SSL_CTX_set_psk_use_session_callback(context, TlsSocketCalls::UseSession);
  SSL_CTX_set_psk_find_session_callback(context, TlsSocketCalls::FindSession);
  ssl_.reset(SSL_new(context));
  BIO* const bio = ssl_ == nullptr ? nullptr : BIO_new(TlsSocketCalls::Methods());
  if (bio == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);  // Takes the one reference for both.
  SSL_set_app_data(ssl_.get(), this);
  is_client ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  return absl::OkStatus();
}

int TlsStream::Receive(char* bytes, int count) {
  ssize_t got = 0;
  do {
    got = ::recv(socket_, bytes, static_cast<std::size_t>(count), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  receive_ended_ = got == 0;
  if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) receive_error_ = errno;
  return static_cast<int>(got);
}

int TlsStream::Keep(const char* bytes, int count) {
  const auto size = static_cast<std::size_t>(count);
  if (unsent_.size() - unsent_end_ < size) return -1;
  std::memcpy(unsent_.data() + unsent_end_, bytes, size);
  unsent_end_ += size;
  return count;
}

int TlsStream::ErrorOf(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return EAGAIN;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: return receive_error_ != 0 ? receive_error_ : EBADMSG;
  }
}

absl::StatusOr<TlsStream::Progress> TlsStream::Handshake(int socket) {
  socket_ = socket;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  const int error = result == 1 ? EAGAIN : ErrorOf(result);
  const unsigned long why = ERR_peek_error();
  // Also sends an alert.
  if (Flush(socket) < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat("the connection ended: ", std::strerror(errno)));
  }
  if (error == 0) return absl::UnavailableError("the connection ended: End of file");
  if (error == EBADMSG) {
    const char* const reason = ERR_reason_error_string(why);
    return absl::PermissionDeniedError(
        absl::StrCat("TLS handshake failed: ", reason == nullptr ? "no reason is known" : reason));
  }
  if (error != EAGAIN) {
    return absl::UnavailableError(absl::StrCat("the connection ended: ", std::strerror(error)));
  }
  if (HasUnsent()) return Progress::kWantsToWrite;
  if (result != 1) return Progress::kWantsToRead;
  // Reused means that the pre-shared key was used.
  if (SSL_session_reused(ssl_.get()) != 1) {
    return absl::PermissionDeniedError("TLS was negotiated without the cluster's key");
  }
  key_ = DerivedKey();
  return Progress::kDone;
}

ssize_t TlsStream::Flush(int socket) {
  if (!HasUnsent()) return 0;
  const ssize_t put = ::send(socket, unsent_.data() + unsent_first_, unsent_end_ - unsent_first_,
                             queue::kNoSignal | MSG_DONTWAIT);
  if (put < 0) return -1;
  unsent_first_ += static_cast<std::size_t>(put);
  if (unsent_first_ == unsent_end_) unsent_first_ = unsent_end_ = 0;
  return put;
}

bool TlsStream::WriteRecord(const unsigned char* bytes, std::size_t count) {
  if (++records_ > records_per_key_) {
    records_ = 1;
    if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return false;
  }
  ERR_clear_error();
  std::size_t written = 0;
  return SSL_write_ex(ssl_.get(), bytes, count, &written) == 1 && written == count;
}

// Makes one record of one large part in place, or of small ones gathered, and removes it from the
// parts.
bool TlsStream::MakeRecord(iovec* parts, int count, std::size_t* taken) {
  const auto take = [](iovec& part, std::size_t bytes) {
    part.iov_base = static_cast<unsigned char*>(part.iov_base) + bytes;
    part.iov_len -= bytes;
  };
  if (parts->iov_len >= kRecordBytesMax || count == 1) {
    *taken = std::min(parts->iov_len, kRecordBytesMax);
    if (!WriteRecord(static_cast<const unsigned char*>(parts->iov_base), *taken)) return false;
    take(*parts, *taken);
    return true;
  }
  *taken = 0;
  for (int i = 0; i < count && *taken < kRecordBytesMax; ++i) {
    const std::size_t bytes = std::min(parts[i].iov_len, kRecordBytesMax - *taken);
    std::memcpy(gathered_.data() + *taken, parts[i].iov_base, bytes);
    take(parts[i], bytes);
    *taken += bytes;
  }
  return WriteRecord(gathered_.data(), *taken);
}

ssize_t TlsStream::Write(int socket, iovec* parts, int count) {
  if (broken_ != 0) {
    errno = broken_;
    return -1;
  }
  if (Flush(socket) < 0) return -1;
  if (HasUnsent()) {
    errno = EAGAIN;
    return -1;
  }
  std::size_t total = 0;
  for (;;) {
    while (count > 0 && parts->iov_len == 0) {
      ++parts;
      --count;
    }
    if (count == 0 || unsent_.size() - unsent_end_ < kRecordRoom) break;
    std::size_t taken = 0;
    if (!MakeRecord(parts, count, &taken)) {
      errno = broken_ = EBADMSG;
      return -1;
    }
    total += taken;
  }
  Flush(socket);  // The next call sees an error again.
  return static_cast<ssize_t>(total);
}

ssize_t TlsStream::Read(int socket, iovec* parts, int count) {
  if (broken_ != 0) {
    errno = broken_;
    return -1;
  }
  socket_ = socket;
  std::size_t total = 0;
  for (int i = 0; i < count; ++i) {
    auto* const bytes = static_cast<unsigned char*>(parts[i].iov_base);
    for (std::size_t have = 0; have < parts[i].iov_len;) {
      ERR_clear_error();
      std::size_t got = 0;
      const int result = SSL_read_ex(ssl_.get(), bytes + have, parts[i].iov_len - have, &got);
      if (result == 1) {
        have += got;
        total += got;
        continue;
      }
      const int error = ErrorOf(result);
      unread_ = error != EAGAIN;  // After some bytes, the next call reports the end or the error.
      if (error != EAGAIN) broken_ = error;
      if (total > 0) return static_cast<ssize_t>(total);
      if (error == 0) return 0;
      errno = error;
      return -1;
    }
  }
  unread_ = true;
  return static_cast<ssize_t>(total);
}

void TlsStream::End(int socket) {
  socket_ = socket;
  ERR_clear_error();
  if (broken_ == 0) SSL_shutdown(ssl_.get());
  Flush(socket);
}

}  // namespace mlxcomm::rail
