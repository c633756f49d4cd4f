#include "daemon/cluster/group_id.h"

#include <array>
#include <cstring>
#include <vector>

#include <openssl/sha.h>

namespace mlxcomm::cluster {

std::uint64_t SplitGroupId(std::uint64_t parent, std::uint64_t number,
                           std::span<const std::uint32_t> ranks) {
  // Little-endian on every system that the daemon runs on (proto/wire/frame.h).
  std::vector<unsigned char> words(2 * sizeof(std::uint64_t) + ranks.size_bytes());
  std::memcpy(words.data(), &parent, sizeof parent);
  std::memcpy(words.data() + sizeof parent, &number, sizeof number);
  if (!ranks.empty()) {
    std::memcpy(words.data() + 2 * sizeof parent, ranks.data(), ranks.size_bytes());
  }
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(words.data(), words.size(), digest.data());
  std::uint64_t id = 0;
  std::memcpy(&id, digest.data(), sizeof id);
  return id == 0 ? 1 : id;
}

}  // namespace mlxcomm::cluster
