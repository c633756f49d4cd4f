// The receives that are posted to one rail: where data goes, and which operations were withdrawn.
// Before a byte is placed, what the link's rails share is claimed: the frame's number
// (arrival_claims.h) and its bytes (receive_budget.h). See README.md, PostedReceives.
//
//   header read ──Begin──▶ placing ──complete──▶ Complete
//                             │  ├──partly arrived──▶ PlaceSome: while it is in the cache
//                             │  └──wrong sum──▶ Disown: gives the claims back
//                             └──rail goes down──▶ Abandon: gives the claims back
//
// Memory: one entry per receive; at most kWithdrawnMax withdrawn operations, then any may be
// withdrawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/rail/arrival_claims.h"
#include "daemon/rail/frames.h"
#include "daemon/rail/receive_budget.h"

namespace mlxcomm::rail {

// From this size on, moving the data costs more than waking a thread for it.
inline constexpr std::uint64_t kLargeBytes = 64 * 1024 + 1;

class PostedReceives {
 public:
  enum class Place : std::uint8_t {
    kDirect,     // Goes to `*destination`.
    kStaged,     // Goes to a staging buffer; Complete places it.
    kDropped,    // Read, but its operation is over: Complete does nothing.
    kDuplicate,  // A copy: nothing was claimed, and Complete is not called.
    kUnknown,    // Its receive may be among the rail's commands: execute them, then ask again.
                 // If it is still unknown, it was never requested.
    kOutside,    // Outside of the grant or of the window.
  };

  bool has_large() const { return large_ > 0; }
  // Call this before the first Begin; `claims` outlive this.
  void ShareClaims(ArrivalClaims& claims) { claims_ = &claims; }
  // Data may arrive for receives that an earlier rail has forgotten.
  void AssumeEarlierWithdrawals() { knows_all_withdrawn_ = false; }

  void Expect(const PostedReceive& receive, ReceiveBudget::Share share) {
    if (posted_.capacity() == 0) posted_.reserve(kUsual);
    Posted& posted = posted_[{receive.key, receive.step}];
    large_ -= IsLarge(posted) ? 1 : 0;  // An earlier one with the same key.
    posted = {receive, share, 0};
    large_ += IsLarge(posted) ? 1 : 0;
  }
  // Returns whether the frame under way is for a withdrawn receive; its rest is dropped.
  bool Forget(const OperationKey& key) {
    absl::erase_if(posted_, [&](const auto& entry) {
      if (entry.first.first != key) return false;
      large_ -= IsLarge(entry.second) ? 1 : 0;
      return true;
    });
    if (withdrawn_.size() < kWithdrawnMax) {
      withdrawn_.insert(key);
    } else {
      knows_all_withdrawn_ = false;
    }
    if (!places_ || current_.first != key) return false;
    places_ = false;
    return true;
  }
  // Everything has arrived, on several rails.
  void ForgetCompleted(const OperationKey& key, std::uint16_t step) {
    if (const auto found = posted_.find({key, step}); found != posted_.end()) Erase(found);
  }

  Place Begin(const wire::FrameHeader& header, std::byte** destination) {
    const bool asked_before = claimed_sequence_ == header.sequence;
    if (!asked_before) {
      switch (claims_->Take(header.sequence)) {
        case ArrivalClaims::Claim::kOurs: break;
        case ArrivalClaims::Claim::kTaken:
        case ArrivalClaims::Claim::kReceived: return Place::kDuplicate;
        case ArrivalClaims::Claim::kBeyond: return Place::kOutside;
      }
      claimed_sequence_ = header.sequence;
    }
    const auto found = posted_.find({KeyOf(header), header.step});
    // Asks again even if it may have been withdrawn, because its receive may wait among the
    // commands.
    if (found == posted_.end() && (!asked_before || !WasWithdrawn(header))) return Place::kUnknown;
    if (found == posted_.end()) return Place::kDropped;
    Posted& posted = found->second;
    const std::uint64_t all = posted.receive.bytes;
    if (header.offset > all || header.payload_bytes > all - header.offset) return Place::kOutside;
    switch (posted.share.Take(header.payload_bytes)) {
      case ReceiveBudget::Claim::kOurs: break;
      case ReceiveBudget::Claim::kTooMuch: return Place::kOutside;
      case ReceiveBudget::Claim::kOver: return Place::kDropped;
    }
    places_ = true;
    current_ = found->first;
    claimed_bytes_ = header.payload_bytes;
    placed_bytes_ = 0;
    if (posted.receive.place != nullptr) return Place::kStaged;
    *destination = posted.receive.destination + header.offset;
    return Place::kDirect;
  }

  // The first `bytes` of a staged payload have arrived. Places whole parts of them.
  void PlaceSome(const wire::FrameHeader& header, const std::byte* staged, std::size_t bytes) {
    const std::size_t part = (bytes - placed_bytes_) / kPartBytes * kPartBytes;
    if (!places_ || part == 0) return;
    const auto found = posted_.find(current_);
    if (found == posted_.end() || !KeepsOperand(found->second.receive)) return;
    const PostedReceive& receive = found->second.receive;
    receive.place(receive, header.offset + placed_bytes_, staged + placed_bytes_,
                  static_cast<std::uint32_t>(part));
    placed_bytes_ += part;
  }

  // The payload is complete, in `staged` unless it was placed directly. Returns whether it is
  // placed.
  bool Complete(const wire::FrameHeader& header, const std::byte* staged) {
    claimed_sequence_ = 0;
    if (!std::exchange(places_, false)) return false;
    const auto found = posted_.find(current_);
    if (found == posted_.end()) return false;
    Posted& posted = found->second;
    if (posted.receive.place != nullptr) {
      posted.receive.place(posted.receive, header.offset + placed_bytes_, staged + placed_bytes_,
                           header.payload_bytes - static_cast<std::uint32_t>(placed_bytes_));
    }
    posted.placed_bytes += header.payload_bytes;
    if (posted.placed_bytes == posted.receive.bytes) Erase(found);
    return true;
  }

  bool is_placing() const { return places_; }
  // The payload is corrupt. Returns the frame to request again.
  std::uint64_t Disown() {
    GiveBackBytes();
    const std::uint64_t sequence = std::exchange(claimed_sequence_, 0);
    (void)claims_->GiveBack(sequence);  // It is requested in any case.
    return sequence;
  }

  // The rail goes down. Returns the frame that no rail has and the peer will not resend unasked; 0:
  // none.
  std::uint64_t Abandon() {
    GiveBackBytes();
    const std::uint64_t sequence = std::exchange(claimed_sequence_, 0);
    return sequence != 0 && claims_->GiveBack(sequence) ? sequence : 0;
  }

 private:
  static constexpr std::size_t kUsual = 1024;
  static constexpr std::size_t kWithdrawnMax = 4096;
  // A multiple of every element size.
  static constexpr std::size_t kPartBytes = 32 * 1024;
  using Key = std::pair<OperationKey, std::uint16_t>;
  struct Posted {
    PostedReceive receive;
    ReceiveBudget::Share share;
    std::uint64_t placed_bytes = 0;  // Placed by this rail.
  };
  void GiveBackBytes() {
    const auto found = std::exchange(places_, false) ? posted_.find(current_) : posted_.end();
    if (found != posted_.end()) found->second.share.GiveBack(claimed_bytes_);
  }
  static bool KeepsOperand(const PostedReceive& receive) {
    const std::less_equal<const std::byte*> before;
    return receive.operand != nullptr &&
           (before(receive.operand + receive.bytes, receive.destination) ||
            before(receive.destination + receive.bytes, receive.operand));
  }
  static bool IsLarge(const Posted& posted) { return posted.receive.bytes >= kLargeBytes; }
  void Erase(absl::flat_hash_map<Key, Posted>::iterator found) {
    large_ -= IsLarge(found->second) ? 1 : 0;
    posted_.erase(found);
  }
  bool WasWithdrawn(const wire::FrameHeader& header) const {
    return !knows_all_withdrawn_ || withdrawn_.contains(KeyOf(header));
  }

  ArrivalClaims* claims_ = nullptr;
  absl::flat_hash_map<Key, Posted> posted_;
  std::size_t large_ = 0;
  absl::flat_hash_set<OperationKey> withdrawn_;
  bool knows_all_withdrawn_ = true;
  std::uint64_t claimed_sequence_ = 0;  // 0: none.
  bool places_ = false;
  Key current_;
  std::uint64_t claimed_bytes_ = 0;
  std::size_t placed_bytes_ = 0;  // Ahead of the rest.
};

}  // namespace mlxcomm::rail
