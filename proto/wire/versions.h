// The versions of the protocol between daemons, which decide which releases can link.
//
//   a daemon      speaks the oldest .. newest version of its table, and sends both (hello.h)
//   two daemons   speak the newest version that both know, or do not link
//
// The policy: a release also speaks the previous release's version, so that machines can be
// upgraded one at a time without losing links. To drop a version from the table, stop and upgrade
// all nodes together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mlxcomm::wire {

struct VersionRange {
  std::uint16_t oldest;
  std::uint16_t newest;
  bool operator==(const VersionRange&) const = default;
};

// The versions that this program speaks (version_table.cc).
VersionRange SpokenVersions();

// The version that two daemons speak; none: they have no common version.
std::optional<std::uint16_t> CommonVersion(const VersionRange& one, const VersionRange& other);

// "7"; "7 to 8".
std::string TextOf(const VersionRange& range);

}  // namespace mlxcomm::wire
