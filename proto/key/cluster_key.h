// The cluster's key: a machine that holds it belongs to the cluster. Each proof and cipher uses its
// own key derived from it, so that the use of one reveals nothing about the others or about the
// cluster's key.
//
//   key ──HKDF-SHA256 (RFC 5869), label──▶ "proof"      HMACs of wire/hello.h
//                                          "rail"       TLS between daemons
//                                          "hello"      signed hellos of discovery
//                                          "id"         the key's id, which is not secret
//
// During a key rotation a cluster has two keys, the current one and the previous one. Both are
// accepted; the current one is used if both sides have it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mlxcomm {

inline constexpr std::size_t kClusterKeyBytes = 32;

struct DerivedKey : std::array<std::uint8_t, 32> {
  DerivedKey() : array{} {}
  DerivedKey(const DerivedKey&) = default;
  DerivedKey& operator=(const DerivedKey&) = default;
  ~DerivedKey();
};
// The same on all machines with the key; reveals nothing about the key.
using ClusterKeyId = std::array<std::uint8_t, 8>;

// 16 hexadecimal digits, as status shows it.
std::string KeyIdText(const ClusterKeyId& id);

class ClusterKey {
 public:
  using Bytes = std::array<std::uint8_t, kClusterKeyBytes>;

  static ClusterKey MakeRandom();
  explicit ClusterKey(const Bytes& bytes) : bytes_(bytes) {}
  ClusterKey(const ClusterKey&) = default;
  ClusterKey& operator=(const ClusterKey&) = default;
  ~ClusterKey();

  // The derived key is bound to `context`, such as a connection's nonces.
  DerivedKey Derive(std::string_view label, std::span<const std::uint8_t> context = {}) const;
  ClusterKeyId id() const;
  std::string IdText() const { return KeyIdText(id()); }
  const Bytes& bytes() const { return bytes_; }

  friend bool operator==(const ClusterKey& a, const ClusterKey& b);

 private:
  Bytes bytes_;
};

struct ClusterKeys {
  ClusterKey current;
  std::optional<ClusterKey> previous;  // Different from `current`.
  std::string cluster;                 // The cluster's name; empty: none is stored with the key.

  // nullptr if no key has this id.
  const ClusterKey* Find(const ClusterKeyId& id) const;
  friend bool operator==(const ClusterKeys&, const ClusterKeys&) = default;
};

}  // namespace mlxcomm
