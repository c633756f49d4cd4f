// Seals hellos with the cluster's key, and opens those that come: in an order in which
// each check costs little more than the one before, and nothing is read unchecked.
//
//   size, magic, version ─▶ tag ─▶ (caller: may it be looked at?) ─▶ HMAC ─▶ fields
//
// Owner: Discovery. Thread: any, values do not change. Memory: a key of 32 bytes, wiped.
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
  // `key`: derived from the cluster's for hellos. Both it and the cluster's name must be the same
  // on all nodes.
  HelloSeal(std::span<const std::uint8_t> key, std::string_view cluster);

  // Fills in magic, version, tag and mac.
  void Seal(wire::DiscoveryHello& hello) const;

  enum class Look : std::uint8_t { kOurs, kMalformed, kForeign };
  // By its length and what is readable without the key.
  Look LookAt(std::span<const std::uint8_t> datagram) const;
  // Of one that LookAt has found to be ours; nothing: it is not proved, or breaks a bound.
  std::optional<wire::DiscoveryHello> Open(std::span<const std::uint8_t> datagram) const;

 private:
  wire::Mac MacOf(const wire::DiscoveryHello& hello) const;

  DerivedKey key_;
  wire::ClusterTag tag_{};
};

// fe80::/10
bool IsLinkLocal(const wire::AddressBytes& address);

}  // namespace mlxcomm::discovery
