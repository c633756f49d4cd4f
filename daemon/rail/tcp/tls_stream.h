// TLS 1.3 over a rail's socket, with a key that both sides derive from the cluster's key and from
// what they have just proved to each other. No certificates, early data, tickets or resumption, and
// no other version, cipher or curve to downgrade to (README.md, TlsStream).
//
//   TLS_AES_128_GCM_SHA256, external pre-shared key with (EC)DHE (psk_dhe_ke), X25519:
//   a later holder of the cluster's key cannot decrypt recorded traffic
//
//   handshaking ──both know the key──▶ carrying ──either ends, or a record is not authentic──▶ over
//
// OpenSSL allocates briefly for each record; only plain rails never allocate.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/rail/byte_stream.h"
#include "daemon/rail/rail_path.h"
#include "proto/key/cluster_key.h"

struct bio_st;
struct ssl_ctx_st;
struct ssl_st;

namespace mlxcomm::rail {

class TlsStream final : public ByteStream {
 public:
  // RFC 8446, 5.5 allows 2^24.5 full records.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;

  // `key` is used for this connection only. The dialer is TLS's client.
  static absl::StatusOr<std::unique_ptr<TlsStream>> Create(
      Role role, const DerivedKey& key, std::uint64_t records_per_key = kRecordsPerKey);

  enum class Progress : std::uint8_t { kDone, kWantsToRead, kWantsToWrite };
  // Call again when the socket is ready for what it wants, until it is done.
  absl::StatusOr<Progress> Handshake(int socket);

  ssize_t Write(int socket, iovec* parts, int count) override;
  ssize_t Read(int socket, iovec* parts, int count) override;
  bool HasUnsent() const override { return unsent_first_ < unsent_end_; }
  ssize_t Flush(int socket) override;
  bool HasUnread() const override { return unread_; }
  void End(int socket) override;
  bool is_encrypted() const override { return true; }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
    void operator()(ssl_st* ssl) const;
  };

  TlsStream(const DerivedKey& key, std::uint64_t records_per_key);
  absl::Status SetUp(Role role);
  bool WriteRecord(const unsigned char* bytes, std::size_t count);
  bool MakeRecord(iovec* parts, int count, std::size_t* taken);
  // Returns 0 at the peer's end, EAGAIN to retry, or the error.
  int ErrorOf(int result);
  int Receive(char* bytes, int count);
  int Keep(const char* bytes, int count);
  friend struct TlsSocketCalls;

  DerivedKey key_;  // Kept until the handshake is done.
  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::unique_ptr<ssl_st, Free> ssl_;
  int socket_ = -1;  // During a call.
  int receive_error_ = 0;
  bool receive_ended_ = false;
  int broken_ = 0;  // The errno that ended it.
  bool unread_ = true;
  std::uint64_t records_per_key_;
  std::uint64_t records_ = 0;  // Sent with the current key.
  std::vector<unsigned char> gathered_;
  std::vector<unsigned char> unsent_;
  std::size_t unsent_first_ = 0;
  std::size_t unsent_end_ = 0;
};

}  // namespace mlxcomm::rail
