// Seals hellos with the cluster's key, and checks those that arrive, the cheapest check first.
//
//   size, magic, version ─▶ tag ─▶ (caller: its ration) ─▶ HMAC ─▶ fields
//
// Owner: Discovery. Thread: any; immutable. Memory: a key of 32 bytes, wiped.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "proto/key/cluster_key.h"
#include "proto/wire/discovery_hello.h"

namespace mlxcomm::discovery {

class HelloSeal {
 public:
  // `key` is derived from the cluster's for hellos. All nodes have the same key and cluster name.
  HelloSeal(std::span<const std::uint8_t> key, std::string_view cluster);

  // Fills in magic, version, tag and mac.
  void Seal(wire::DiscoveryHello& hello) const;

  enum class Look : std::uint8_t { kOurs, kMalformed, kForeign };
  // Checks what needs no key.
  Look LookAt(std::span<const std::uint8_t> datagram) const;
  // For a datagram that is kOurs; nothing: the signature is wrong, or a field is out of bounds.
  std::optional<wire::DiscoveryHello> Open(std::span<const std::uint8_t> datagram) const;

 private:
  wire::Mac MacOf(const wire::DiscoveryHello& hello) const;

  DerivedKey key_;
  wire::ClusterTag tag_{};
};

// fe80::/10
bool IsLinkLocal(const wire::AddressBytes& address);

}  // namespace mlxcomm::discovery
