// The cluster's key: a machine that holds it belongs to the cluster. Everything that is proved or
// encrypted uses a key derived from it, one for each purpose, so that the use of one reveals
// nothing about the others or about the cluster's key.
//
//   key ──HKDF-SHA256 (RFC 5869), label──▶ "proof"      HMACs of wire/hello.h
//                                          "rail"       TLS between daemons
//                                          "hello"      signed hellos of discovery
//                                          "id"         a name for the key, no secret
//
// While the key is being changed, a cluster has two: the current one and the previous. Both are
// accepted; the current one is used wherever the other side has it as well.
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
// The same on all machines that hold the key; reveals nothing about it.
using ClusterKeyId = std::array<std::uint8_t, 8>;

// As status shows it to people: 16 hexadecimal digits.
std::string KeyIdText(const ClusterKeyId& id);

class ClusterKey {
 public:
  using Bytes = std::array<std::uint8_t, kClusterKeyBytes>;

  static ClusterKey MakeRandom();
  explicit ClusterKey(const Bytes& bytes) : bytes_(bytes) {}
  ClusterKey(const ClusterKey&) = default;
  ClusterKey& operator=(const ClusterKey&) = default;
  ~ClusterKey();

  // `context`: what the derived key is bound to, such as a connection's nonces.
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
  std::optional<ClusterKey> previous;  // Never the same as `current`.
  std::string cluster;  // The name that came with the key; empty: it came without one.

  // nullptr: neither has this id.
  const ClusterKey* Find(const ClusterKeyId& id) const;
  friend bool operator==(const ClusterKeys&, const ClusterKeys&) = default;
};

}  // namespace mlxcomm
