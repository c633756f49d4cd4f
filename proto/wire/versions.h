// Which releases link: the one table of the versions of what two daemons say to each other.
//
//   a daemon speaks  oldest .. newest   of its own table; its greeting says both (hello.h)
//   two daemons      speak the newest that both know, or do not link
//
// The policy: a release speaks the version of the release before it as well, so that machines can be
// upgraded one after the other while all of them stay linked. A version that is left out of the table ends
// that; then the service is stopped on all nodes, and upgraded.
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
  const char* brought;  // What is other than in the version before it.
};

struct VersionRange {
  std::uint16_t oldest;
  std::uint16_t newest;
  bool operator==(const VersionRange&) const = default;
};

// Those that this program speaks, the oldest first; without gaps.
std::span<const WireVersion> WireVersions();
VersionRange SpokenVersions();

// What two daemons speak to each other; none: they cannot.
std::optional<std::uint16_t> CommonVersion(const VersionRange& one, const VersionRange& other);

// "7"; "7 to 8".
std::string TextOf(const VersionRange& range);
// As TextOf writes it; none: it is no range.
std::optional<VersionRange> ParseVersionRange(const std::string& text);

}  // namespace mlxcomm::wire
