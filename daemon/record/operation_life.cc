#include "daemon/record/operation_life.h"

#include <algorithm>
#include <map>

namespace mlxcomm::record {
namespace {

void Add(const Event& event, OperationLife& life) {
  switch (event.kind) {
    case EventKind::kSubmitted:
      if (life.submitted.empty()) {
        life.operation = event.operation;
        life.data_type = event.data_type;
        life.reduce_operator = event.reduce_operator;
        life.root = event.step;
        life.bytes = event.bytes;
      }
      life.submitted.push_back({event.party, event.time_ns});
      return;
    case EventKind::kHeard: life.heard.push_back({event.party, event.time_ns}); return;
    case EventKind::kMatched:
      life.matched_ns = event.time_ns;
      life.plan = event.plan;
      return;
    case EventKind::kFirstByte: life.first_byte_ns = event.time_ns; return;
    case EventKind::kLastByte:
      life.last_byte_ns = event.time_ns;
      life.received_bytes = event.bytes;
      life.sent_bytes = event.duration_ns;
      return;
    case EventKind::kDone:
    case EventKind::kFailed:
      life.ended_ns = event.time_ns;
      life.failed = event.kind == EventKind::kFailed;
      life.code = event.code;
      return;
    case EventKind::kNothing:
    case EventKind::kSent:
    case EventKind::kReceived:
    case EventKind::kWorked: return;
  }
}

}  // namespace

std::uint64_t OperationLife::began_ns() const {
  std::uint64_t first = ~std::uint64_t{0};
  if (!submitted.empty()) first = submitted.front().time_ns;
  if (!heard.empty()) first = std::min(first, heard.front().time_ns);
  for (const std::uint64_t time : {matched_ns, first_byte_ns, last_byte_ns, ended_ns}) {
    if (time != 0) first = std::min(first, time);
  }
  return first;
}

OperationLife::Last OperationLife::last() const {
  if (submitted.empty() || ended_ns == 0 || failed) return {};
  Last last{false, submitted.back().rank};
  if (!heard.empty() && heard.back().time_ns > submitted.back().time_ns) {
    last = {true, heard.back().rank};
  }
  return last;
}

std::vector<OperationLife> LivesOf(std::span<const Event> events) {
  std::vector<OperationLife> lives;
  std::map<OperationKey, std::size_t> known;
  for (const Event& event : events) {
    const auto [place, is_new] = known.try_emplace(event.name(), lives.size());
    if (is_new) lives.emplace_back().name = event.name();
    Add(event, lives[place->second]);
  }
  std::erase_if(lives, [](const OperationLife& life) {
    return life.submitted.empty() && life.ended_ns != 0;
  });
  return lives;
}

void AddCarriers(std::span<const TrackCopy> rails, std::vector<OperationLife>& lives) {
  std::map<OperationKey, OperationLife*> known;
  for (OperationLife& life : lives) known.emplace(life.name, &life);
  for (std::size_t track = 0; track < rails.size(); ++track) {
    const std::uint64_t since_ns = rails[track].since_ns();
    for (const Event& event : rails[track].events) {
      const auto found = known.find(event.name());
      if (found == known.end()) continue;
      auto& carriers = found->second->carriers;
      if (carriers.empty() || carriers.back().track != track) {
        carriers.push_back({track, 0, 0, 0, 0, found->second->began_ns() < since_ns});
      }
      OperationLife::Carrier& carrier = carriers.back();
      ++carrier.frames;
      (event.kind == EventKind::kSent ? carrier.sent_bytes : carrier.received_bytes) += event.bytes;
      carrier.last_ns = std::max(carrier.last_ns, event.time_ns + event.duration_ns);
    }
  }
}

}  // namespace mlxcomm::record
