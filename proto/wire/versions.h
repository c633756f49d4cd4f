// The versions of the protocol between daemons, which decide which releases can link.
//
//   a daemon      speaks the oldest .. newest version of its table, and sends both (hello.h)
//   two daemons   speak the newest version that both know, or do not link
//
// The policy: a release also speaks the previous release's version, so that machines can be
// upgraded one at a time without losing links. To drop a version from the table, stop and upgrade
// all nodes together.
//
// Pure functions. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mlxcomm::wire {

struct WireVersion {
  std::uint16_t number;
  const char* since;    // The first release that speaks it.
  const char* brought;  // Describes what it changed.
};

struct VersionRange {
  std::uint16_t oldest;
  std::uint16_t newest;
  bool operator==(const VersionRange&) const = default;
};

// The versions that this program speaks, oldest first, without gaps.
std::span<const WireVersion> WireVersions();
VersionRange SpokenVersions();

// The version that two daemons speak; none: they have no common version.
std::optional<std::uint16_t> CommonVersion(const VersionRange& one, const VersionRange& other);

// "7"; "7 to 8".
std::string TextOf(const VersionRange& range);
// Parses TextOf's format; none: it is not a range.
std::optional<VersionRange> ParseVersionRange(const std::string& text);

}  // namespace mlxcomm::wire
