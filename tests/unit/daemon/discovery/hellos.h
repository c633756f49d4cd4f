// Hellos, keys and addresses for the tests of discovery.
//
// Owner: the test. Thread: its own. Memory: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/discovery/sealed_hello.h"
#include "daemon/rail/text_field.h"
#include "proto/key/cluster_key.h"
#include "proto/types/node_id.h"

namespace mlxcomm::discovery {

inline DerivedKey KeyOf(std::uint8_t number) {
  DerivedKey key;
  key.fill(number);
  return key;
}

// In their order.
inline NodeId NodeOf(std::uint16_t number) {
  NodeId id;
  id.bytes[0] = static_cast<std::uint8_t>(number >> 8);
  id.bytes[1] = static_cast<std::uint8_t>(number);
  return id;
}

// fe80::NODE:INTERFACE
inline wire::AddressBytes AddressOf(std::uint16_t node, std::uint8_t interface) {
  wire::AddressBytes address{};
  address[0] = 0xfe;
  address[1] = 0x80;
  address[12] = static_cast<std::uint8_t>(node >> 8);
  address[13] = static_cast<std::uint8_t>(node);
  address[15] = interface;
  return address;
}

// The hello of node `number` on its interface "en0", which has heard no other node.
inline wire::DiscoveryHello HelloOf(std::uint16_t number, std::uint64_t sequence) {
  wire::DiscoveryHello hello{};
  hello.node_id = NodeOf(number).bytes;
  hello.incarnation = 1000u + number;
  hello.sequence = sequence;
  hello.nonce = 2000u + number;
  hello.address = AddressOf(number, 0);
  hello.port = 7470;
  rail::PutText("node-" + std::to_string(number), hello.node_name);
  rail::PutText("en0", hello.interface_name);
  return hello;
}

// The same, which has heard node 1 with that nonce.
inline wire::DiscoveryHello ReplyOf(std::uint16_t number, std::uint64_t sequence,
                                    std::uint64_t nonce) {
  wire::DiscoveryHello hello = HelloOf(number, sequence);
  hello.heard_count = 1;
  hello.heard[0] = {NodeOf(1).bytes, nonce, 0, 0};
  return hello;
}

inline std::vector<std::uint8_t> BytesOf(wire::DiscoveryHello hello, const HelloSeal& seal) {
  seal.Seal(hello);
  const auto* const first = reinterpret_cast<const std::uint8_t*>(&hello);
  return {first, first + sizeof hello};
}

}  // namespace mlxcomm::discovery
