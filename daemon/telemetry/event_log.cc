#include "daemon/telemetry/event_log.h"

#include <algorithm>
#include <utility>

namespace mlxcomm::telemetry {
namespace {

// Not in the middle of a character of several bytes.
void Cut(std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
}

}  // namespace

void EventLog::Add(LoggedEvent event) {
  Cut(event.text, kTextBytesMax);
  Cut(event.object, kObjectBytesMax);
  const std::lock_guard lock(mutex_);
  event.number = next_++;
  if (kept_.size() == kKeptMax) kept_.pop_front();
  kept_.push_back(std::move(event));
}

EventLog::Part EventLog::Read(std::uint64_t from, std::size_t events_max) const {
  const std::lock_guard lock(mutex_);
  Part part;
  const std::uint64_t oldest = next_ - kept_.size();
  const std::uint64_t first = std::clamp(from, oldest, next_);
  part.lost = from < oldest ? oldest - from : 0;
  const std::size_t count = std::min<std::size_t>(events_max, next_ - first);
  const auto begin = kept_.begin() + static_cast<std::ptrdiff_t>(first - oldest);
  part.events.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  part.next = first + count;
  return part;
}

std::uint64_t EventLog::next() const {
  const std::lock_guard lock(mutex_);
  return next_;
}

const char* SeverityName(EventSeverity severity) {
  switch (severity) {
    case EventSeverity::kNote: return "note";
    case EventSeverity::kWarning: return "warning";
    case EventSeverity::kError: return "error";
  }
  return "note";
}

}  // namespace mlxcomm::telemetry
