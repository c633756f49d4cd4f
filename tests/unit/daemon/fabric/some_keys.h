// Keys for tests, each made from a number.
//
// Thread: any. Memory: values.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/key/cluster_key.h"

namespace mlxcomm::fabric {

inline ClusterKey KeyOf(std::uint8_t number) {
  ClusterKey::Bytes bytes;
  bytes.fill(number);
  return ClusterKey(bytes);
}

inline ClusterKeys KeysOf(std::uint8_t current) { return {KeyOf(current), std::nullopt, ""}; }

inline ClusterKeys KeysOf(std::uint8_t current, std::uint8_t previous) {
  return {KeyOf(current), KeyOf(previous), ""};
}

}  // namespace mlxcomm::fabric
