// Lets a link wait: for a rail to carry, and in a grace period for one to return.
#include <algorithm>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/link/link.h"
#include "daemon/rail/status_reason.h"

namespace mlxcomm::link {

void Link::Open(std::size_t at) {
  OnRail& on = rails_[at];
  on.carries = true;
  ++carrying_;
  channel_.OnRailUp(at, on.rail->is_reliable());
  channel_.OnNow(now_ns_);
  if (on.resumed) acknowledge_now_ = true;  // Earlier acknowledgements may have been lost.
  large_.OnPassed(on.path);
}

void Link::OpenAndReport(std::size_t at, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  Open(at);
  if (state_ == State::kGrace) {
    spdlog::info("link to {}: a rail is back, continuing", peer_.name);
    state_ = State::kUp;
    reason_ = LinkReason::kNone;
    detail_.clear();
  }
  ReportRail(at, FabricNotice::Kind::kRailUp, {});
}

// A new connection proves only that small packets pass; it carries nothing until a large frame has
// come back.
bool Link::OpenProvenRails(std::uint64_t now_ns) {
  bool opened = false;
  if (carrying_ == present_.size()) return false;
  for (const std::size_t at : present_) {
    const OnRail& on = rails_[at];
    if (on.rail == nullptr || on.carries || !on.rail->has_passed_large()) continue;
    OpenAndReport(at, now_ns);
    DropOlderCircuits(at, now_ns);
    opened = true;
  }
  return opened;
}

bool Link::IsSmallOnly(const OnRail& on, std::uint64_t now_ns) const {
  return on.rail != nullptr && !on.carries && !on.rail->has_passed_large() &&
         now_ns >= on.since_ns + options_.heartbeat_timeout_ns / 2;
}

bool Link::MayCarry(std::uint64_t now_ns) const {
  return present_.Any([&](std::size_t at) {
    return !IsSmallOnly(rails_[at], now_ns) && !large_.AreLostOn(rails_[at].path);
  });
}

void Link::OnSmallOnlyEnded(const OnRail& on, std::uint64_t now_ns) {
  if (!IsSmallOnly(on, now_ns) || !large_.OnFailed(on.path, now_ns)) return;
  spdlog::warn("link to {}: small frames pass on {} - {}, but large ones do not", peer_.name,
               on.path.local, on.path.remote);
}

// A rail that appears at the end gets time to pass a large frame, unless one on its path has
// failed.
bool Link::ExtendGraceForLarge(std::uint64_t now_ns) {
  std::uint64_t until_ns = 0;
  for (const std::size_t at : present_) {
    const OnRail& on = rails_[at];
    if (large_.HasFailedSince(on.path, grace_began_ns_)) continue;
    until_ns = std::max(until_ns, on.since_ns + options_.heartbeat_timeout_ns / 2);
  }
  until_ns = std::min(
      until_ns, grace_due_ns_ + std::max(options_.grace_period_ns, options_.heartbeat_timeout_ns));
  if (until_ns <= now_ns) return false;
  grace_end_ns_ = until_ns;
  return true;
}

void Link::OnInterfaceUp(std::uint64_t now_ns) {
  ExtendGrace(now_ns, options_.heartbeat_timeout_ns);
}

// Extends it to at least now_ns + by_ns, but to no more than by_ns after its original end.
void Link::ExtendGrace(std::uint64_t now_ns, std::uint64_t by_ns) {
  if (state_ != State::kGrace || grace_after_reset_) return;
  grace_end_ns_ = std::max(grace_end_ns_, std::min(now_ns, grace_due_ns_) + by_ns);
}

// The peer is alive and its answers get lost, so it gets a second grace period, once.
void Link::OnConnectionInGrace(std::uint64_t now_ns) {
  detail_ = "a connection is back, but no large frame has passed on it yet";
  ExtendGrace(now_ns, options_.grace_period_ns);
}

void Link::EnterGrace(const rail::RailEnd& end, std::uint64_t now_ns) {
  const bool reset = end.cause == rail::DownCause::kReset;
  state_ = State::kGrace;
  reason_ = end.reason;
  grace_after_reset_ = reset;
  grace_why_ = end.why;
  grace_paused_ns_ = 0;
  grace_began_ns_ = now_ns;
  grace_end_ns_ = now_ns + (reset ? options_.reset_grace_ns : options_.grace_period_ns);
  grace_due_ns_ = grace_end_ns_;
  detail_ = absl::StrCat("rail down: ", end.why, "; waiting for it to come back");
  spdlog::warn("link to {}: {}", peer_.name, detail_);
  listener_.OnNotice({FabricNotice::Kind::kLinkWaits, peer_.name, {}, end.why});
}

// A rail ended without passing a large frame. A daemon that has ended gets only the reset grace.
void Link::StayInGrace(const rail::RailEnd& end, std::uint64_t now_ns) {
  grace_after_reset_ = end.cause == rail::DownCause::kReset;
  if (grace_after_reset_) {
    grace_end_ns_ = std::min(grace_end_ns_, now_ns + options_.reset_grace_ns);
  }
  grace_why_ = end.why;
  detail_ = absl::StrCat("rail down: ", end.why, "; waiting for it to come back");
}

void Link::EndGrace(std::uint64_t now_ns) {
  if (OpenProvenRails(now_ns)) Pump();
  if (state_ != State::kGrace || ExtendGraceForLarge(now_ns)) return;
  for (const std::size_t at : present_) {
    const OnRail& on = rails_[at];
    if (IsSmallOnly(on, now_ns)) large_.OnLost(on.path, now_ns);
  }
  if (large_.AreLostSince(grace_began_ns_)) {
    return Lose(rail::WithReason(
        absl::UnavailableError(absl::StrCat(
            "small frames pass to it, but large ones have not for ",
            (now_ns - grace_began_ns_) / 1'000'000,
            " ms: are packets lost on the way, or is an MTU there smaller than at the ends?")),
        LinkReason::kLargeLost));
  }
  Lose(absl::UnavailableError(absl::StrCat(
      grace_after_reset_ ? "its daemon closed the connection and did not come back within "
                         : "no connection to it for ",
      (grace_after_reset_ ? options_.reset_grace_ns : options_.grace_period_ns) / 1'000'000,
      " ms (", grace_why_,
      grace_after_reset_ ? ")" : "; peers { grace_period_ms } sets how long to wait)")));
}

// Every peer gets time to answer, but short pauses that follow do not extend it: on a machine so
// busy that all ticks are late, dead peers must still be found.
void Link::OnPause(std::uint64_t late_ns, std::uint64_t now_ns) {
  const auto time_to_answer = [&](std::uint64_t& first_ns, bool again) {
    if (first_ns == 0 || again || late_ns > options_.heartbeat_timeout_ns) first_ns = now_ns;
    return std::min(now_ns + options_.heartbeat_interval_ns,
                    first_ns + options_.heartbeat_timeout_ns * 3 / 2);
  };
  for (const std::size_t at : present_) {
    OnRail& on = rails_[at];
    on.since_ns += late_ns;
    on.silent_from_ns = time_to_answer(on.paused_ns, on.rail->last_received_ns() >= on.paused_ns);
  }
  grace_end_ns_ = std::max(grace_end_ns_ + late_ns, time_to_answer(grace_paused_ns_, false));
  grace_due_ns_ += late_ns;
  if (asked_until_ns_ != kNever) asked_until_ns_ = now_ns + options_.reset_grace_ns / 2;
}

}  // namespace mlxcomm::link
