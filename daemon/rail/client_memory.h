// Memory that payload may be sent from for long, made known to the fabric so that a rail can
// register it with its hardware: a client's arena.
//
// Owner: its maker, and all that may still read from it, also hardware that will be done at an
// unknown time. Thread: any. Memory: mapped as long as `owner` is kept.
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
  // By which another process maps it; open as long as `owner` is kept. -1: there is none.
  int descriptor = -1;
  // Keeps its pages from being given back to the system, as long as what it returns is kept; null: not
  // now. Whatever registers the memory asks for it first. Empty: they stay anyway.
  std::function<std::shared_ptr<const void>()> keep_pages = {};

  bool Has(const std::byte* address) const {
    const auto first = reinterpret_cast<std::uintptr_t>(data);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= first && at - first < bytes;
  }
};

}  // namespace mlxcomm::rail
