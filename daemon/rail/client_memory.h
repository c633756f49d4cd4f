// Memory that payload may be sent from for a long time (a client's arena), so that rails can
// register it. It stays mapped as long as anything keeps `owner`, such as hardware that finishes at
// an unknown time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace mlxcomm::rail {

struct ClientMemory {
  std::shared_ptr<const void> owner;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  // A descriptor by which another process can map it, open as long as `owner` is kept; -1: none.
  int descriptor = -1;
  // Keeps the pages resident as long as the result is kept; null if not possible now. Empty if
  // they stay anyway.
  std::function<std::shared_ptr<const void>()> keep_pages = {};

  bool Has(const std::byte* address) const {
    const auto first = reinterpret_cast<std::uintptr_t>(data);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= first && at - first < bytes;
  }
};

}  // namespace mlxcomm::rail
