// Names an address of a page, for printed schedules and for planted mistakes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/meeting/page.h"

namespace mlxcomm::meeting::explorer {

enum class Field : std::uint8_t {
  kHeader,
  kTurn,
  kDone,
  kMet,
  kReady,
  kAnnounced,
  kCall,
  kInline,
  kEntry,
  kOffered,
  kAdopted,
  kSleepers,
  kRecord,
  kCell,
};

struct Place {
  Field field = Field::kHeader;
  std::uint32_t rank = 0;
  std::uint32_t slot = 0;
};

inline Place PlaceOf(const PageView& page, const void* word) {
  const auto* const base = reinterpret_cast<const std::byte*>(&page.header());
  auto at = static_cast<std::size_t>(static_cast<const std::byte*>(word) - base);
  if (at < kAreasOffset) return {};
  if (at >= CellsOffset(page.ranks())) {
    const std::size_t cell = (at - CellsOffset(page.ranks())) / kCellBytes;
    return {Field::kCell, static_cast<std::uint32_t>(cell / kGenerations),
            static_cast<std::uint32_t>(cell % kGenerations)};
  }
  const auto rank = static_cast<std::uint32_t>((at - kAreasOffset) / sizeof(RankArea));
  at = (at - kAreasOffset) % sizeof(RankArea);
  if (at >= offsetof(RankArea, records)) {
    return {Field::kRecord, rank,
            static_cast<std::uint32_t>((at - offsetof(RankArea, records)) / sizeof(MetRecord))};
  }
  if (at >= offsetof(RankArea, offers)) {
    at -= offsetof(RankArea, offers);
    const auto slot = static_cast<std::uint32_t>(at / sizeof(Offer));
    at %= sizeof(Offer);
    if (at >= offsetof(Offer, sleepers)) return {Field::kSleepers, rank, slot};
    if (at >= offsetof(Offer, adopted_plus_one)) return {Field::kAdopted, rank, slot};
    if (at >= offsetof(Offer, number_plus_one)) return {Field::kOffered, rank, slot};
    return {Field::kEntry, rank, slot};
  }
  if (at >= offsetof(RankArea, slots)) {
    at -= offsetof(RankArea, slots);
    const auto slot = static_cast<std::uint32_t>(at / sizeof(Slot));
    at %= sizeof(Slot);
    if (at >= offsetof(Slot, inline_bytes)) return {Field::kInline, rank, slot};
    if (at >= offsetof(Slot, call)) return {Field::kCall, rank, slot};
    return {Field::kAnnounced, rank, slot};
  }
  if (at >= offsetof(RankArea, ready)) return {Field::kReady, rank, 0};
  if (at >= offsetof(RankArea, met)) return {Field::kMet, rank, 0};
  if (at >= offsetof(RankArea, done)) return {Field::kDone, rank, 0};
  return {Field::kTurn, rank, 0};
}

inline std::string NameOf(const Place& place) {
  static constexpr const char* kNames[] = {"reopens_at", "turn",     "done",   "met",   "ready",
                                           "announced",  "call",     "inline", "entry", "offered",
                                           "adopted",    "sleepers", "record", "cell"};
  const std::string name = kNames[static_cast<std::size_t>(place.field)];
  if (place.field == Field::kHeader) return name;
  return name + "[" + std::to_string(place.rank) + "," + std::to_string(place.slot) + "]";
}

}  // namespace mlxcomm::meeting::explorer
