// The link's paths that pass small frames but not large ones, because an MTU on the path is smaller
// than those of its ends. A connection over such a path can be made, and the first large frame
// blocks it.
//
//   (not known) ──a connection ends that passed none──▶ suspected ──the next as well──▶ lost
//        ▲                                                    │                            │
//        └───────── one passes, the interface goes down, or kForgetNs without a try ───────┘
//
// One failure proves nothing: the cable may have been pulled just then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/rail/rail_path.h"

namespace mlxcomm::link {

class LargeFrames {
 public:
  static constexpr std::size_t kPathsMax = 16;
  static constexpr std::uint64_t kForgetNs = 600'000'000'000;

  void OnPassed(const rail::RailPath& path) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.path == path; });
  }
  // A connection ended that could have passed one. Returns whether the path counts as lost from now
  // on.
  bool OnFailed(const rail::RailPath& path, std::uint64_t now_ns) {
    Entry& entry = EntryOf(path);
    entry.failed_ns = now_ns;
    return ++entry.failed_in_a_row == kLostAfter;
  }
  void OnLost(const rail::RailPath& path, std::uint64_t now_ns) {
    Entry& entry = EntryOf(path);
    entry.failed_ns = now_ns;
    entry.failed_in_a_row = std::max(entry.failed_in_a_row, kLostAfter);
  }
  // A different cable may be plugged in next.
  void OnInterfaceDown(const std::string& interface) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.path.local == interface; });
  }
  void ForgetOld(std::uint64_t now_ns) {
    std::erase_if(entries_,
                  [&](const Entry& entry) { return now_ns >= entry.failed_ns + kForgetNs; });
  }

  bool HasFailedSince(const rail::RailPath& path, std::uint64_t since_ns) const {
    return Any([&](const Entry& one) { return one.path == path && one.failed_ns >= since_ns; });
  }
  bool AreLostSince(std::uint64_t since_ns) const {
    return Any([&](const Entry& one) { return one.is_lost() && one.failed_ns >= since_ns; });
  }
  bool AreLostOn(const rail::RailPath& path) const {
    return Any([&](const Entry& one) { return one.path == path && one.is_lost(); });
  }
  // Returns "en2 - en3, en4 - en5", or "" if no path is lost.
  std::string PathsText() const {
    std::string text;
    for (const Entry& entry : entries_) {
      if (!entry.is_lost()) continue;
      if (!text.empty()) text += ", ";
      text += entry.path.local + " - " + entry.path.remote;
    }
    return text;
  }

 private:
  static constexpr std::uint32_t kLostAfter = 2;
  struct Entry {
    rail::RailPath path;
    std::uint32_t failed_in_a_row = 0;
    std::uint64_t failed_ns = 0;
    bool is_lost() const { return failed_in_a_row >= kLostAfter; }
  };

  template <typename Is>
  bool Any(Is is) const {
    return std::ranges::any_of(entries_, is);
  }
  // The least recent failure makes room.
  Entry& EntryOf(const rail::RailPath& path) {
    const auto found = std::ranges::find(entries_, path, &Entry::path);
    if (found != entries_.end()) return *found;
    if (entries_.size() == kPathsMax) {
      entries_.erase(std::ranges::min_element(entries_, {}, &Entry::failed_ns));
    }
    return entries_.emplace_back(Entry{path});
  }

  std::vector<Entry> entries_;
};

}  // namespace mlxcomm::link
