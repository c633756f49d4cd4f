// The cluster's key as people carry it from one machine to the next: letters and digits that are
// hard to confuse, with a checksum that reveals typing errors.
//
//   [NAME:]XXXX-XXXX-...    14 groups of 4 of Crockford's base 32: 256 bits of key, 24 of
//                           SHA-256(name, key). Small letters, spaces and missing hyphens
//                           are accepted; O reads as 0, I and L as 1.
//
// 64 hexadecimal digits, the form of older key files, are accepted as well; they have no name and
// no checksum.
//
// Thread: any. Memory: strings, which the callers should not keep.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/key/cluster_key.h"

namespace mlxcomm {

struct NamedKey {
  std::string cluster;  // May be empty.
  ClusterKey key;
};

std::string WriteKeyCode(const NamedKey& key);
// INVALID_ARGUMENT: what is wrong with it; never the code itself.
absl::StatusOr<NamedKey> ReadKeyCode(std::string_view code);

// Where `text` has the room, nothing in it moves: no copy of a key stays behind.
void AppendHex(const ClusterKey& key, std::string& text);
// False: these are not two hexadecimal digits for each byte.
bool ReadHex(std::string_view text, std::span<std::uint8_t> bytes);

// What a cluster may be called: 1 to 63 bytes of UTF-8 without control characters, and no
// space at the ends.
bool IsClusterName(std::string_view name);

}  // namespace mlxcomm
