// The cluster's key: who holds it belongs to the cluster. All that is proved or encrypted
// uses keys that are derived from it, one for each purpose, so that what one of them is
// used for tells nothing about another, nor about the key itself.
//
//   key ──HKDF-SHA256 (RFC 5869), label──▶ "proof"      HMACs of wire/hello.h
//                                          "rail"       TLS between daemons
//                                          "hello"      signed hellos of discovery
//                                          "id"         a name for the key, no secret
//
// While it is being changed, a cluster has two: the current one and the previous. Both are
// accepted, the current one is used wherever the other side has it, too.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mlxcomm {

inline constexpr std::size_t kClusterKeyBytes = 32;

// For one purpose only.
struct DerivedKey : std::array<std::uint8_t, 32> {
  DerivedKey() : array{} {}
  DerivedKey(const DerivedKey&) = default;
  DerivedKey& operator=(const DerivedKey&) = default;
  ~DerivedKey();
};
// The same on all who hold the key, and nothing can be found out from it.
using ClusterKeyId = std::array<std::uint8_t, 8>;

// As people see it, in status: 16 hexadecimal digits.
std::string KeyIdText(const ClusterKeyId& id);

class ClusterKey {
 public:
  using Bytes = std::array<std::uint8_t, kClusterKeyBytes>;

  static ClusterKey MakeRandom();
  explicit ClusterKey(const Bytes& bytes) : bytes_(bytes) {}
  ClusterKey(const ClusterKey&) = default;
  ClusterKey& operator=(const ClusterKey&) = default;
  ~ClusterKey();

  // `context`: what the derived key is to be bound to, such as a connection's nonces.
  DerivedKey Derive(std::string_view label, std::span<const std::uint8_t> context = {}) const;
  ClusterKeyId id() const;
  std::string IdText() const { return KeyIdText(id()); }
  const Bytes& bytes() const { return bytes_; }

  friend bool operator==(const ClusterKey& a, const ClusterKey& b);

 private:
  Bytes bytes_;
};

// What one daemon accepts.
struct ClusterKeys {
  ClusterKey current;
  std::optional<ClusterKey> previous;  // Never the same as `current`.
  std::string cluster;                 // The name that came with the key; empty: none did.

  // nullptr: neither has this id.
  const ClusterKey* Find(const ClusterKeyId& id) const;
  friend bool operator==(const ClusterKeys&, const ClusterKeys&) = default;
};

}  // namespace mlxcomm
