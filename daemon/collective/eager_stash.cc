#include "daemon/collective/eager_stash.h"

#include <algorithm>
#include <utility>

namespace mlxcomm::collective {

EagerStash::EagerStash(std::uint16_t nodes, std::uint16_t self)
    : self_(self), credits_(nodes, kEagerCredits), owed_(nodes, 0), free_(nodes) {
  if (nodes <= 1) return;
  memory_.resize(std::size_t{nodes} * kEagerCredits * kEagerBytes);
  for (std::uint16_t node = 0; node < nodes; ++node) {
    if (node == self_) continue;
    for (std::uint32_t i = 0; i < kEagerCredits; ++i) {
      free_[node].push_back(node * kEagerCredits + i);
    }
  }
}

bool EagerStash::TakeCredit(std::uint16_t node) {
  if (credits_[node] == 0) return false;
  --credits_[node];
  return true;
}

bool EagerStash::ReturnCredit(std::uint16_t node, std::uint64_t frames) {
  if (frames > kEagerCredits - credits_[node]) return false;
  credits_[node] += static_cast<std::uint32_t>(frames);
  return true;
}

std::int32_t EagerStash::Put(std::uint16_t node, std::span<const std::byte> payload) {
  if (free_[node].empty() || payload.size() > kEagerBytes) return -1;
  const std::uint32_t slot = free_[node].back();
  free_[node].pop_back();
  std::copy(payload.begin(), payload.end(),
            memory_.begin() + static_cast<std::ptrdiff_t>(slot * kEagerBytes));
  return static_cast<std::int32_t>(slot);
}

const std::byte* EagerStash::Data(std::int32_t slot) const {
  return memory_.data() + static_cast<std::size_t>(slot) * kEagerBytes;
}

std::uint16_t EagerStash::NodeOf(std::int32_t slot) const {
  return static_cast<std::uint16_t>(static_cast<std::uint32_t>(slot) / kEagerCredits);
}

std::uint32_t EagerStash::Free(std::int32_t slot) {
  const std::uint16_t node = NodeOf(slot);
  free_[node].push_back(static_cast<std::uint32_t>(slot));
  if (++owed_[node] < kCreditLot) return 0;
  return std::exchange(owed_[node], 0);
}

}  // namespace mlxcomm::collective
