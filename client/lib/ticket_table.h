// Operations in flight, by ticket: found without a hash, and added without an allocation.
//
//   ticket % places ─▶ places_ ─▶ entry      A ticket whose place is taken is left out; so tickets
//                                            rise, mostly by one.
//
// The entry erased last is used first, because it is in the caches. Entries do not move.
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
  explicit TicketTable(std::uint32_t entries_max)
      : places_(PlacesFor(entries_max), kNone), entries_(entries_max) {
    held_.reserve(entries_max);
    free_.resize(entries_max);
    std::iota(free_.begin(), free_.end(), std::uint16_t{0});
  }

  std::size_t size() const { return held_.size(); }

  // Gives out a ticket, never 0.
  std::uint64_t NextTicket() {
    do {
      ++last_ticket_;
    } while (PlaceOf(last_ticket_) != kNone);
    return last_ticket_;
  }
  // Adds a default value under a ticket that was given out and has no value. Requires that there is
  // room, and that no ticket has been given out since, which might have taken the place.
  Value& Add(std::uint64_t ticket) {
    MLXCOMM_INVARIANT(PlaceOf(ticket) == kNone);
    const std::uint16_t place = free_.back();
    free_.pop_back();
    PlaceOf(ticket) = place;
    Entry& entry = entries_[place];
    entry.ticket = ticket;
    entry.held_at = static_cast<std::uint16_t>(held_.size());
    held_.push_back(place);
    return entry.value;
  }

  // nullptr if no value has it. Valid until it is erased.
  Value* Find(std::uint64_t ticket) {
    const std::uint16_t place = PlaceOf(ticket);
    if (place == kNone || entries_[place].ticket != ticket) return nullptr;
    return &entries_[place].value;
  }
  // Requires that there is one.
  void Erase(std::uint64_t ticket) {
    std::uint16_t& place = PlaceOf(ticket);
    Entry& entry = entries_[place];
    std::destroy_at(&entry.value);  // Its resources are released now.
    std::construct_at(&entry.value);
    entries_[held_.back()].held_at = entry.held_at;
    held_[entry.held_at] = held_.back();
    held_.pop_back();
    free_.push_back(place);
    place = kNone;
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
  static constexpr std::uint16_t kNone = UINT16_MAX;
  struct Entry {
    std::uint64_t ticket = 0;
    std::uint16_t held_at = 0;  // Its index in held_.
    Value value;
  };

  static std::size_t PlacesFor(std::uint32_t entries_max) {
    std::size_t places = 1;
    while (places < 2 * std::size_t{entries_max}) places *= 2;
    return places;
  }
  std::uint16_t& PlaceOf(std::uint64_t ticket) { return places_[ticket & (places_.size() - 1)]; }

  std::uint64_t last_ticket_ = 0;
  std::vector<std::uint16_t> places_;  // Indexed by the lower bits of the ticket.
  std::vector<Entry> entries_;
  std::vector<std::uint16_t> free_;
  std::vector<std::uint16_t> held_;
};

}  // namespace mlxcomm::client
