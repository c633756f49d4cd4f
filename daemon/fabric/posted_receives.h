// The receives that are posted to one rail: where data goes, what of it has come, and
// which operations were withdrawn.
//
// Data that comes for a withdrawn operation is dropped; data that nobody ever asked for,
// that lies outside of its receive, or that comes twice is the other side's fault.
//
// Owner: TcpRail and CircuitRail, one each. Thread: its owner's. Memory: one entry for
// each receive; kWithdrawnMax withdrawn operations, beyond which any unknown one may have
// been.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/fabric/channel.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/received_ranges.h"

namespace mlxcomm::fabric {

class PostedReceives {
 public:
  enum class Place : std::uint8_t {
    kDirect,   // At `*destination`.
    kStaged,   // Somewhere else first, then Complete places it.
    kDropped,  // Its operation was withdrawn.
    kUnasked,
    kOutside,  // Of what was granted, or it has come before.
  };

  void Reserve(std::size_t receives) { posted_.reserve(receives); }
  // Data may come that an earlier rail was told to forget.
  void DoNotKnowAllWithdrawn() { knows_all_withdrawn_ = false; }

  void Expect(const PostedReceive& receive, const ReceivedRanges& received) {
    posted_[{receive.key, receive.step}] = {receive, received};
  }
  void Forget(const OperationKey& key) {
    absl::erase_if(posted_, [&](const auto& entry) { return entry.first.first == key; });
    if (withdrawn_.size() < kWithdrawnMax) {
      withdrawn_.insert(key);
    } else {
      knows_all_withdrawn_ = false;
    }
  }

  // Where the payload of a well-formed kData frame goes.
  Place PlaceOf(const wire::FrameHeader& header, std::byte** destination) const {
    const auto found = posted_.find({KeyOf(header), header.step});
    if (found == posted_.end()) {
      const bool withdrawn = !knows_all_withdrawn_ || withdrawn_.contains(KeyOf(header));
      return withdrawn ? Place::kDropped : Place::kUnasked;
    }
    const Posted& posted = found->second;
    if (header.offset > posted.receive.bytes ||
        header.payload_bytes > posted.receive.bytes - header.offset ||
        !posted.received.Accepts(header.offset, header.payload_bytes)) {
      return Place::kOutside;
    }
    if (posted.receive.place != nullptr) return Place::kStaged;
    *destination = posted.receive.destination + header.offset;
    return Place::kDirect;
  }

  // All of the payload has come, to `staged` unless it went where it belongs. Its place
  // was kDirect or kStaged and has not been forgotten since.
  void Complete(const wire::FrameHeader& header, const std::byte* staged) {
    const auto found = posted_.find({KeyOf(header), header.step});
    Posted& posted = found->second;
    if (posted.receive.place != nullptr) {
      posted.receive.place(posted.receive, header.offset, staged, header.payload_bytes);
    }
    posted.received.Add(header.offset, header.payload_bytes);
    if (posted.received.bytes() == posted.receive.bytes) posted_.erase(found);
  }

 private:
  static constexpr std::size_t kWithdrawnMax = 4096;
  struct Posted {
    PostedReceive receive;
    ReceivedRanges received;
  };
  absl::flat_hash_map<std::pair<OperationKey, std::uint16_t>, Posted> posted_;
  absl::flat_hash_set<OperationKey> withdrawn_;
  bool knows_all_withdrawn_ = true;
};

}  // namespace mlxcomm::fabric
