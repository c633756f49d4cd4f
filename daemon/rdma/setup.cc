#include "daemon/rdma/setup.h"

#include "absl/strings/str_cat.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rail/text_field.h"
#include "daemon/rdma/choose_gid.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

constexpr std::uint32_t kMessageBytesMin = apple::kFrameBytes;
constexpr std::uint32_t kMessagesMax = apple::kFramesMax;

}  // namespace

RailSetup Setup::Message(SetupKind kind) const {
  RailSetup message{};
  message.kind = kind;
  message.attempt = attempt_;
  rail::PutText(path_.local, message.sender_interface);
  rail::PutText(path_.remote, message.receiver_interface);
  if (kind == SetupKind::kRefuse) return message;
  message.services = shape_.service == Service::kReliable ? kReliableService : 0;
  message.message_bytes = shape_.message_bytes;
  message.messages = shape_.messages;
  message.address = own_;
  return message;
}

bool Setup::IsSound(const RailSetup& message) {
  const QueuePairAddress& address = message.address;
  return message.attempt != 0 && message.message_bytes >= kMessageBytesMin &&
         message.message_bytes <= apple::kMessageBytesMax && message.messages >= kMessagesMin &&
         message.messages <= kMessagesMax && message.services <= kReliableService &&
         address.number <= 0xffffff && address.first_packet <= 0xffffff &&
         address.receives >= kMessagesMin && address.receives <= message.messages &&
         address.mtu_bytes >= 256 && address.mtu_bytes <= 4096;
}

void Setup::Refuse(std::uint64_t attempt, const std::string& why, std::uint32_t services,
                   LinkReason reason) {
  RailSetup message = Message(SetupKind::kRefuse);
  message.attempt = attempt;
  message.services = services;
  message.messages = static_cast<std::uint32_t>(reason);
  if (services == kSmallerMessages) message.message_bytes = has_.message_bytes_max;
  rail::PutText(why, message.why);
  port_.Send(message);
}

void Setup::EndAttempt() {
  state_ = State::kIdle;
  if (attempt_ != 0) port_.Drop();
  attempt_ = 0;
}

void Setup::Fail(const std::string& why, LinkReason reason, std::uint64_t now_ns) {
  EndAttempt();
  detail_ = why;
  reason_ = reason;
  peers_reason_ = false;
  due_ns_ = offers_ ? now_ns + pause_ns_ : kNever;
  pause_ns_ = std::min(2 * pause_ns_, kPauseNsMax);
}

void Setup::ForgetFailure() {
  detail_.clear();
  reason_ = LinkReason::kNone;
  peers_reason_ = false;
}

void Setup::Abandon() {
  EndAttempt();
  due_ns_ = offers_ ? 0 : kNever;
}

std::uint64_t Setup::deadline_ns() const {
  if (state_ == State::kUp || (state_ == State::kIdle && !offers_)) return kNever;
  return due_ns_;
}

void Setup::OnTime(std::uint64_t now_ns, std::uint64_t attempt) {
  if (now_ns < deadline_ns()) return;
  if (state_ != State::kIdle) {
    const bool here = state_ == State::kMaking || state_ == State::kConnecting;
    const std::string why = here ? "the driver does not answer" : "the other side does not answer";
    const LinkReason reason = here ? LinkReason::kDriverSilent : LinkReason::kNotMade;
    Refuse(attempt_, absl::StrCat("timed out: ", why), 0, reason);
    return Fail(why, reason, now_ns);
  }
  attempt_ = attempt;
  state_ = State::kMaking;
  due_ns_ = now_ns + kAttemptNs;
  shape_ = {service_, message_bytes_, has_.messages_max};
  port_.Make(shape_);
}

void Setup::OnMessage(const RailSetup& message, std::uint64_t now_ns) {
  switch (message.kind) {
    case SetupKind::kOffer: return OnOffer(message, now_ns);
    case SetupKind::kAnswer: return OnAnswer(message, now_ns);
    case SetupKind::kReady:
      if (state_ == State::kAnswered && message.attempt == attempt_) BecomeRail(now_ns);
      return;
    case SetupKind::kRefuse:
      if (message.attempt == attempt_ && attempt_ != 0) OnRefused(message, now_ns);
      return;
  }
}

void Setup::OnRefused(const RailSetup& refusal, std::uint64_t now_ns) {
  Fail(absl::StrCat("the other side: ", MakePrintable(rail::TextOf(refusal.why))),
       LinkReasonOf(refusal.messages, LinkReason::kNotMade), now_ns);
  peers_reason_ = true;
  if (refusal.services == kSmallerMessages && offers_ &&
      refusal.message_bytes >= kMessageBytesMin && refusal.message_bytes < message_bytes_) {
    message_bytes_ = refusal.message_bytes;
    return TryNow(now_ns);
  }
  if (refusal.services != kUnreliableOnly || service_ == Service::kUnreliable) return;
  service_ = Service::kUnreliable;
  TryNow(now_ns);
}

// A new offer replaces any earlier attempt: the offering side knows best what has ended.
void Setup::OnOffer(const RailSetup& offer, std::uint64_t now_ns) {
  if (offers_ || !IsSound(offer)) return Refuse(offer.attempt, "an invalid offer");
  EndAttempt();
  // The offering side has already made a queue pair of that service.
  const bool reliable = offer.services == kReliableService;
  if (reliable && service_ != Service::kReliable) {
    return Refuse(offer.attempt, "this side has unreliable queue pairs only", kUnreliableOnly);
  }
  if (offer.message_bytes > has_.message_bytes_max) {
    return Refuse(
        offer.attempt,
        absl::StrCat("messages of ", offer.message_bytes, " bytes; this device supports at most ",
                     has_.message_bytes_max, " (before macOS 26.3: 4096)"),
        kSmallerMessages);
  }
  const std::uint64_t own_bytes = std::uint64_t{has_.message_bytes} * has_.messages_max;
  const std::uint64_t fit = own_bytes / offer.message_bytes;
  if (fit < kMessagesMin) {
    return Refuse(offer.attempt,
                  absl::StrCat("messages of ", offer.message_bytes, " bytes; only ", own_bytes,
                               " bytes in total may be posted here (rdma {})"));
  }
  attempt_ = offer.attempt;
  state_ = State::kMaking;
  ForgetFailure();
  due_ns_ = now_ns + kAttemptNs;
  peer_ = offer.address;
  const std::uint64_t messages = std::min<std::uint64_t>({offer.messages, has_.messages_max, fit});
  shape_ = {reliable ? Service::kReliable : Service::kUnreliable, offer.message_bytes,
            static_cast<std::uint32_t>(messages)};
  port_.Make(shape_);
}

void Setup::OnMade(const absl::StatusOr<QueuePairAddress>& made, std::uint64_t now_ns) {
  if (state_ != State::kMaking) return;
  if (!made.ok()) {
    const std::string why(made.status().message());
    const bool has_none = absl::IsUnimplemented(made.status());
    const LinkReason reason = rail::ReasonOf(made.status(), LinkReason::kNotMade);
    if (!offers_) Refuse(attempt_, why, has_none ? kUnreliableOnly : 0, reason);
    Fail(why, reason, now_ns);
    if (!has_none || service_ == Service::kUnreliable) return;
    service_ = Service::kUnreliable;
    return TryNow(now_ns);
  }
  own_ = *made;
  if (offers_) {
    state_ = State::kOffered;
    port_.Send(Message(SetupKind::kOffer));
  } else {
    state_ = State::kConnecting;
    port_.Connect(peer_);
  }
}

void Setup::OnAnswer(const RailSetup& answer, std::uint64_t now_ns) {
  if (state_ != State::kOffered || answer.attempt != attempt_) return;
  const bool reliable = answer.services == kReliableService;
  if (!IsSound(answer) || answer.message_bytes != shape_.message_bytes ||
      reliable != (shape_.service == Service::kReliable)) {
    Refuse(attempt_, "an answer that does not match the offer");
    return Fail("the other side's answer does not match the offer", LinkReason::kNotMade, now_ns);
  }
  peer_ = answer.address;
  state_ = State::kConnecting;
  port_.Connect(peer_);
}

void Setup::OnConnected(const absl::Status& status, std::uint64_t now_ns) {
  if (state_ != State::kConnecting) return;
  if (!status.ok()) {
    LinkReason reason = rail::ReasonOf(status, LinkReason::kNotMade);
    const std::string why = absl::StrCat(status.message(), WarningOfGids(reason));
    Refuse(attempt_, why, 0, reason);
    return Fail(why, reason, now_ns);
  }
  if (!offers_) {
    state_ = State::kAnswered;
    return port_.Send(Message(SetupKind::kAnswer));
  }
  port_.Send(Message(SetupKind::kReady));
  BecomeRail(now_ns);
}

// Apple's devices are known to connect only between GIDs of IPv4 addresses (choose_gid.h).
std::string Setup::WarningOfGids(LinkReason& reason) const {
  if (has_.equal_frame_bytes == 0) return {};
  std::string warning;
  if (!MirrorsIpv4(peer_.gid)) {
    reason = LinkReason::kPeerGidWithoutIpv4;
    warning = absl::StrCat(", to a GID without IPv4, ", GidText(peer_.gid));
  }
  if (!MirrorsIpv4(own_.gid)) {
    reason = LinkReason::kGidWithoutIpv4;
    warning = absl::StrCat(", from a GID without IPv4, ", GidText(own_.gid), warning);
  }
  return warning;
}

void Setup::BecomeRail(std::uint64_t now_ns) {
  const absl::Status added = port_.AddRail(attempt_, shape_.service, peer_);
  if (!added.ok()) {
    const std::string why(added.message());
    Refuse(attempt_, why);  // The other side may already have a rail.
    return Fail(why, LinkReason::kNotMade, now_ns);
  }
  state_ = State::kUp;
  up_since_ns_ = now_ns;
  ForgetFailure();
}

void Setup::OnRailGone(std::uint64_t now_ns) {
  if (state_ != State::kUp) return;
  if (now_ns - up_since_ns_ >= kSteadyNs) pause_ns_ = kPauseNsMin;
  Refuse(attempt_, "the rail went down there");
  attempt_ = 0;
  Fail("the rail went down and is being set up again", LinkReason::kNotMade, now_ns);
}

}  // namespace mlxcomm::rdma
