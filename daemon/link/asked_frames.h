// Frames that this side asks the peer to send again: a rail dropped a copy as a duplicate, and then
// the other copy did not arrive. An acknowledgement names each frame once, because the peer sends a
// copy each time.
//
//   Want ──▶ wanted ──Begin, Next…, End: an acknowledgement──▶ asked for ──arrived──▶ gone
//              ▲                                                  │
//              └─ that rail has ended, or nothing came for a while (AskAgain) ─┘
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace mlxcomm::link {

class AskedFrames {
 public:
  // May be called again if the new copy was dropped as well.
  void Want(std::uint64_t sequence) {
    const auto found = std::ranges::find(wanted_, sequence);
    if (found != wanted_.end()) {
      if (found - wanted_.begin() < static_cast<std::ptrdiff_t>(asked_)) --asked_;
      wanted_.erase(found);
    }
    wanted_.push_back(sequence);
  }
  bool empty() const { return wanted_.empty(); }
  void OnRailGone() { asked_ = 0; }
  // The next acknowledgement repeats the first requests.
  void AskAgain() { again_ = true; }
  void Clear() {
    wanted_.clear();
    asked_ = 0;
    again_ = false;
  }

  // Starts an acknowledgement and drops the frames that has_arrived(sequence).
  template <typename HasArrived>
  void Begin(HasArrived has_arrived) {
    std::size_t kept = 0;
    std::size_t asked = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (has_arrived(wanted_[i])) continue;
      if (i < asked_) ++asked;
      wanted_[kept++] = wanted_[i];
    }
    wanted_.resize(kept);
    asked_ = asked;
    next_ = again_ ? 0 : asked_;
  }
  std::optional<std::uint64_t> Next() {
    if (next_ >= wanted_.size()) return std::nullopt;
    return wanted_[next_++];
  }
  // One acknowledgement is full. Returns whether another one is needed.
  bool NextRound() {
    next_ = std::max(next_, asked_);
    return next_ < wanted_.size();
  }
  void End() {
    asked_ = wanted_.size();
    again_ = false;
  }

 private:
  std::vector<std::uint64_t> wanted_;
  std::size_t asked_ = 0;  // This many from the front have been requested.
  std::size_t next_ = 0;
  bool again_ = false;
};

}  // namespace mlxcomm::link
