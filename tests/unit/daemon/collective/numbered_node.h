// A node id made from a number.
#pragma once

#include <cstdint>

#include "proto/types/node_id.h"

namespace mlxcomm::collective {

inline NodeId NumberedNode(std::uint8_t number) {
  NodeId id;
  id.bytes[0] = number;
  return id;
}

}  // namespace mlxcomm::collective
