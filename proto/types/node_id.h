// A node's identity: a random number that is made once and stored on the node's disk.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <utility>

namespace mlxcomm {

struct NodeId {
  std::array<std::uint8_t, 16> bytes{};

  // 32 hexadecimal digits.
  std::string ToString() const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
      text.push_back(kDigits[byte >> 4]);
      text.push_back(kDigits[byte & 15]);
    }
    return text;
  }
  friend auto operator<=>(const NodeId&, const NodeId&) = default;

  template <typename H>
  friend H AbslHashValue(H state, const NodeId& id) {
    return H::combine(std::move(state), id.bytes);
  }
};
static_assert(sizeof(NodeId) == sizeof(NodeId::bytes));  // Lists of them are copied to the wire.

}  // namespace mlxcomm
