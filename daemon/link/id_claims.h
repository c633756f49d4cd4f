// Distinguishes a restarted daemon from a second machine with the same node id, for example one
// with a copied disk. A daemon draws a new incarnation whenever it starts. So an incarnation that
// is active beside another, or returns after another has replaced it, belongs to a second machine.
//
//   arrives while none is linked, or the linked one has no connection ──▶ kTaken
//   arrives while another's connections live ──▶ kWaits, until those are heard again or end
//   arrives again, and they were heard since ──▶ kRefused    was linked, then replaced ──▶ kRefused
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace mlxcomm::link {

class IdClaims {
 public:
  enum class Answer : std::uint8_t { kTaken, kWaits, kRefused };
  // The linked daemon; incarnation 0: lost. `heard_ns`: the last receipt on any of its connections;
  // 0: none.
  struct Holder {
    std::uint64_t incarnation = 0;
    std::uint64_t heard_ns = 0;
  };

  Answer Judge(std::uint64_t incarnation, const Holder& holder, const std::string& address,
               std::uint64_t now_ns) {
    if (incarnation == holder.incarnation) return Answer::kTaken;
    const bool comes_again = std::ranges::find(replaced_, incarnation) != replaced_.end();
    const bool both_live = incarnation == rival_ && holder.heard_ns > rival_since_ns_;
    if (comes_again || both_live) {
      seen_ns_ = now_ns;
      address_ = address;
      return holder.incarnation == 0 ? Answer::kTaken : Answer::kRefused;
    }
    if (holder.incarnation == 0 || holder.heard_ns == 0) return Answer::kTaken;
    if (std::exchange(rival_, incarnation) != incarnation) rival_since_ns_ = now_ns;
    return Answer::kWaits;
  }
  void OnTaken(std::uint64_t incarnation) {
    if (incarnation == linked_) return;
    std::ranges::rotate(replaced_, replaced_.end() - 1);
    replaced_.front() = std::exchange(linked_, incarnation);
    std::ranges::replace(replaced_, incarnation, std::uint64_t{0});
    if (rival_ == incarnation) rival_ = 0;
  }

  // Returns whether a new conflict was seen and none was reported in the last minute.
  bool ShouldReport(std::uint64_t now_ns) {
    if (seen_ns_ != now_ns || (reported_ns_ != 0 && now_ns - reported_ns_ < kReportNs))
      return false;
    reported_ns_ = now_ns;
    return true;
  }
  std::uint64_t seen_ns() const { return seen_ns_; }       // The last conflict; 0: never.
  const std::string& address() const { return address_; }  // The other machine's.

 private:
  static constexpr std::uint64_t kReportNs = 60'000'000'000;

  std::uint64_t linked_ = 0;
  std::array<std::uint64_t, 4> replaced_{};  // Newest first.
  std::uint64_t rival_ = 0;
  std::uint64_t rival_since_ns_ = 0;
  std::uint64_t seen_ns_ = 0;
  std::uint64_t reported_ns_ = 0;
  std::string address_;
};

}  // namespace mlxcomm::link
