// Operations in flight, by ticket: found without a hash, and added without an allocation.
//
// A ticket is a rising number and the index of its entry. The entry erased last is used first,
// because it is in the caches. Entries do not move.
//
// Owner: InFlight. Thread: one at a time. Memory: `entries_max` entries, allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "proto/types/invariant.h"

namespace mlxcomm::client {

template <typename Value>
class TicketTable {
 public:
  // `entries_max` is at most 65535.
  explicit TicketTable(std::uint32_t entries_max) : entries_(entries_max) {
    held_.reserve(entries_max);
    free_.resize(entries_max);
    std::iota(free_.begin(), free_.end(), std::uint16_t{0});
  }

  std::size_t size() const { return held_.size(); }

  // Gives out a ticket, never 0. Requires that there is room.
  std::uint64_t NextTicket() { return ++last_number_ << kPlaceBits | free_.back(); }
  // Adds a default value under a ticket that was given out and has no value. Requires that no other
  // value was added or erased since this ticket was given out or its value erased.
  Value& Add(std::uint64_t ticket) {
    const std::uint16_t place = PlaceOf(ticket);
    MLXCOMM_INVARIANT(!free_.empty() && free_.back() == place);
    free_.pop_back();
    Entry& entry = entries_[place];
    entry.ticket = ticket;
    entry.held_at = static_cast<std::uint16_t>(held_.size());
    held_.push_back(place);
    return entry.value;
  }

  // nullptr if no value has it. Valid until it is erased.
  Value* Find(std::uint64_t ticket) {
    const std::uint16_t place = PlaceOf(ticket);
    const bool has_it = place < entries_.size() && entries_[place].ticket == ticket;
    return has_it && ticket != 0 ? &entries_[place].value : nullptr;
  }
  // Requires that there is one.
  void Erase(std::uint64_t ticket) {
    const std::uint16_t place = PlaceOf(ticket);
    Entry& entry = entries_[place];
    entry.ticket = 0;
    std::destroy_at(&entry.value);  // Its resources are released now.
    std::construct_at(&entry.value);
    entries_[held_.back()].held_at = entry.held_at;
    held_[entry.held_at] = held_.back();
    held_.pop_back();
    free_.push_back(place);
  }

  // Calls visit(value) for each, in no order, and erases it if that returns true.
  template <typename Visitor>
  void EraseWhere(Visitor visit) {
    for (std::size_t at = held_.size(); at-- > 0;) {
      Entry& entry = entries_[held_[at]];
      if (visit(entry.value)) Erase(entry.ticket);
    }
  }

 private:
  static constexpr int kPlaceBits = 16;
  struct Entry {
    std::uint64_t ticket = 0;   // 0: the entry is free.
    std::uint16_t held_at = 0;  // Its index in held_.
    Value value;
  };

  static std::uint16_t PlaceOf(std::uint64_t ticket) { return static_cast<std::uint16_t>(ticket); }

  std::uint64_t last_number_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint16_t> free_;
  std::vector<std::uint16_t> held_;
};

}  // namespace mlxcomm::client
