// The frames that this side asks for once more: it has dropped a copy of each as one too many, and then the
// other copy did not come. An acknowledgement says which these are; each is said once, for each time that it
// is said another copy comes.
//
//   Want ──▶ wanted ──Begin, Next…, End: an acknowledgement──▶ asked for ──it has come──▶ gone
//              ▲                                                  │
//              └─ the rail that said so has gone; or for long nothing has come (AskAgain) ─┘
//
// Owner: Link. Thread: the loop's. Memory: a number for each such frame, of which there are few.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace mlxcomm::link {

class AskedFrames {
 public:
  // Asked for it was, where it has come and was dropped once more.
  void Want(std::uint64_t sequence) {
    const auto found = std::ranges::find(wanted_, sequence);
    if (found != wanted_.end()) {
      if (found - wanted_.begin() < static_cast<std::ptrdiff_t>(asked_)) --asked_;
      wanted_.erase(found);
    }
    wanted_.push_back(sequence);
  }
  bool empty() const { return wanted_.empty(); }
  // What was said may have been lost.
  void OnRailGone() { asked_ = 0; }
  // The next acknowledgement says the first ones again, as many as go into one.
  void AskAgain() { again_ = true; }
  void Clear() {
    wanted_.clear();
    asked_ = 0;
    again_ = false;
  }

  // An acknowledgement is written. has_come(sequence): it need not be asked for any more.
  template <typename HasCome>
  void Begin(HasCome has_come) {
    std::size_t kept = 0;
    std::size_t asked = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (has_come(wanted_[i])) continue;
      if (i < asked_) ++asked;
      wanted_[kept++] = wanted_[i];
    }
    wanted_.resize(kept);
    asked_ = asked;
    next_ = again_ ? 0 : asked_;
  }
  // The next to be said; nothing: all have been.
  std::optional<std::uint64_t> Next() {
    if (next_ >= wanted_.size()) return std::nullopt;
    return wanted_[next_++];
  }
  // One acknowledgement is full. True: there is more for another one.
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
  std::size_t asked_ = 0;  // The first of them have been asked for.
  std::size_t next_ = 0;
  bool again_ = false;
};

}  // namespace mlxcomm::link
