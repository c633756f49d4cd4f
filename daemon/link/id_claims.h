// Tells a restarted daemon from a second machine with the same node id, such as one whose disk is a copy. A
// daemon draws a new incarnation with each start. So one that is heard beside another of its id, or comes
// back after it, is another machine's.
//
//   comes while none is linked, or the linked one has no connection ──▶ kTaken
//   comes while another's connections live ──▶ kWaits: those are heard again, or end
//   comes again, and they were heard since ──▶ kRefused    was linked, and replaced ──▶ kRefused
//
// Sans-I/O; time is an argument. Owner: Link. Thread: the loop's. Memory: five incarnations.
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
  // The daemon that the link is with; incarnation 0: it is lost. `heard_ns`: when one of its connections was
  // heard last; 0: there is none.
  struct Holder {
    std::uint64_t incarnation = 0;
    std::uint64_t heard_ns = 0;
  };

  // Another connection, from `address`, says that it is this node's.
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
  // The link is with this daemon from now on.
  void OnTaken(std::uint64_t incarnation) {
    if (incarnation == linked_) return;
    std::ranges::rotate(replaced_, replaced_.end() - 1);
    replaced_.front() = std::exchange(linked_, incarnation);
    std::ranges::replace(replaced_, incarnation, std::uint64_t{0});
    if (rival_ == incarnation) rival_ = 0;
  }

  // Returns whether two machines were seen now, and people have not heard of it for a minute.
  bool ShouldReport(std::uint64_t now_ns) {
    if (seen_ns_ != now_ns || (reported_ns_ != 0 && now_ns - reported_ns_ < kReportNs))
      return false;
    reported_ns_ = now_ns;
    return true;
  }
  std::uint64_t seen_ns() const { return seen_ns_; }  // When two machines were seen last; 0: never.
  const std::string& address() const { return address_; }  // The other machine's.

 private:
  static constexpr std::uint64_t kReportNs = 60'000'000'000;

  std::uint64_t linked_ = 0;
  std::array<std::uint64_t, 4> replaced_{};  // Others took their place; the last one first.
  std::uint64_t rival_ = 0;
  std::uint64_t rival_since_ns_ = 0;
  std::uint64_t seen_ns_ = 0;
  std::uint64_t reported_ns_ = 0;
  std::string address_;
};

}  // namespace mlxcomm::link
