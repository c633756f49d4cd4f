#include "proto/wire/versions.h"

#include <algorithm>

namespace mlxcomm::wire {

std::optional<std::uint16_t> CommonVersion(const VersionRange& one, const VersionRange& other) {
  const std::uint16_t newest = std::min(one.newest, other.newest);
  if (newest < std::max(one.oldest, other.oldest)) return std::nullopt;
  return newest;
}

std::string TextOf(const VersionRange& range) {
  const std::string oldest = std::to_string(range.oldest);
  return range.oldest == range.newest ? oldest : oldest + " to " + std::to_string(range.newest);
}

}  // namespace mlxcomm::wire
