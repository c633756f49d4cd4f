// The paths of a link on which small frames pass and large ones do not: an MTU on the way is smaller than
// those of its ends. A connection over such a path can be made, and the first large frame blocks it.
//
//   (not known) ──a connection goes, which passed none──▶ suspected ──the next as well──▶ lost
//        ▲                                                    │                            │
//        └───────── one passes, the interface goes down, or nothing is heard for long ─────┘
//
// One alone proves nothing: its cable may have been pulled just then.
//
// Owner: Link. Thread: the loop's; time is an argument. Memory: an entry for each path, at most kPathsMax.
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
  // A connection has gone that was there for long enough to pass one. True: so they are lost, as of now.
  bool OnFailed(const rail::RailPath& path, std::uint64_t now_ns) {
    Entry& entry = EntryOf(path);
    entry.failed_ns = now_ns;
    return ++entry.failed_in_a_row == kLostAfter;
  }
  // It is known otherwise.
  void OnLost(const rail::RailPath& path, std::uint64_t now_ns) {
    Entry& entry = EntryOf(path);
    entry.failed_ns = now_ns;
    entry.failed_in_a_row = std::max(entry.failed_in_a_row, kLostAfter);
  }
  // Whatever is plugged in there next, it is another way.
  void OnInterfaceDown(const std::string& interface) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.path.local == interface; });
  }
  // Nobody tries these paths any more.
  void ForgetOld(std::uint64_t now_ns) {
    std::erase_if(entries_,
                  [&](const Entry& entry) { return now_ns >= entry.failed_ns + kForgetNs; });
  }

  bool HasFailedSince(const rail::RailPath& path, std::uint64_t since_ns) const {
    return Any([&](const Entry& one) { return one.path == path && one.failed_ns >= since_ns; });
  }
  // On any path.
  bool AreLostSince(std::uint64_t since_ns) const {
    return Any([&](const Entry& one) { return one.is_lost() && one.failed_ns >= since_ns; });
  }
  bool AreLostOn(const rail::RailPath& path) const {
    return Any([&](const Entry& one) { return one.path == path && one.is_lost(); });
  }
  // "en2 - en3, en4 - en5"; empty: on none.
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
    std::uint64_t failed_ns = 0;  // The last one.
    bool is_lost() const { return failed_in_a_row >= kLostAfter; }
  };

  template <typename Is>
  bool Any(Is is) const {
    return std::ranges::any_of(entries_, is);
  }
  // The one that failed first makes room.
  Entry& EntryOf(const rail::RailPath& path) {
    const auto found = std::ranges::find(entries_, path, &Entry::path);
    if (found != entries_.end()) return *found;
    if (entries_.size() == kPathsMax) {
      entries_.erase(std::ranges::min_element(entries_, {}, &Entry::failed_ns));
    }
    return entries_.emplace_back(Entry{path});
  }

  std::vector<Entry> entries_;  // In the order of the first failures.
};

}  // namespace mlxcomm::link
