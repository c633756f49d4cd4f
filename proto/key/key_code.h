// The cluster's key as text for people to copy between machines: letters and digits that are hard
// to confuse, with a checksum against typing errors.
//
//   [NAME:]XXXX-XXXX-...    14 groups of 4 characters of Crockford's base 32: 256 bits of key, 24
//                           of SHA-256(name, key). Lower case, spaces and missing hyphens are
//                           accepted; O reads as 0, I and L as 1.
//
// 64 hexadecimal digits, as in older key files, are accepted as well, without name and checksum.
//
// Thread: any. Memory: strings, which callers should not keep.
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
// INVALID_ARGUMENT: the message never contains the code.
absl::StatusOr<NamedKey> ReadKeyCode(std::string_view code);

// Reserve space in `text` first: growing it would leave copies of the key in memory.
void AppendHex(const ClusterKey& key, std::string& text);
// False: `text` is not two hexadecimal digits for each byte.
bool ReadHex(std::string_view text, std::span<std::uint8_t> bytes);

// A cluster's name is 1 to 63 bytes of UTF-8 without control characters, and no space at the ends.
bool IsClusterName(std::string_view name);

}  // namespace mlxcomm
