#include "daemon/record/event_log.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/types/plain_text.h"

namespace mlxcomm::record {
namespace {

bool MaySee(const std::optional<std::string>& user, const EventLog::Sees& sees) {
  return !user || sees(*user);
}

}  // namespace

void EventSink::Report(const char* kind, EventSeverity severity, std::string_view object,
                       std::string_view text, std::optional<std::string> user) {
  Add({.kind = kind,
       .severity = severity,
       .object = MakePrintable(object),
       .text = MakePrintable(text),
       .user = std::move(user)});
}

// A user's key begins with a blank, so that it never equals a kind.
EventLog::Source& EventLog::SourceOf(const LoggedEvent& event) {
  if (!event.user) return sources_[event.kind];
  std::string name = " " + *event.user;
  const bool is_new = !sources_.contains(name);
  if (is_new && users_ >= kUsersMax) return sources_[" "];  // Shared by several users.
  Source& source = sources_[std::move(name)];
  if (is_new) {
    ++users_;
    if (!event.user->empty()) source.user = event.user;
  }
  return source;
}

void EventLog::Add(LoggedEvent event) {
  event.text.resize(Utf8Prefix(event.text, kTextBytesMax).size());
  event.object.resize(Utf8Prefix(event.object, kObjectBytesMax).size());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  event.unix_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
  const std::lock_guard lock(mutex_);
  event.number = next_++;
  Source& source = SourceOf(event);
  if (source.kept.size() == kKeptMax) {
    source.kept.pop_front();
    ++source.dropped;
  }
  source.kept.push_back(std::move(event));
}

EventLog::Part EventLog::Read(Cursor& cursor, std::size_t events_max, const Sees& sees) const {
  const std::lock_guard lock(mutex_);
  Part part;
  std::vector<std::pair<const Source*, std::uint64_t*>> open;
  for (const auto& [name, source] : sources_) {
    if (!MaySee(source.user, sees)) continue;
    std::uint64_t& had = cursor[name];
    part.lost += source.dropped > had ? source.dropped - had : 0;
    had = std::max(had, source.dropped);
    open.emplace_back(&source, &had);
  }
  while (part.events.size() < events_max) {
    const LoggedEvent* oldest = nullptr;
    std::uint64_t* of_oldest = nullptr;
    for (const auto& [source, had] : open) {
      const std::size_t at = *had - source->dropped;
      if (at == source->kept.size()) continue;
      if (oldest != nullptr && oldest->number < source->kept[at].number) continue;
      oldest = &source->kept[at];
      of_oldest = had;
    }
    if (oldest == nullptr) break;
    ++*of_oldest;
    if (MaySee(oldest->user, sees)) part.events.push_back(*oldest);
  }
  return part;
}

EventLog::Cursor EventLog::Newest(std::size_t count, const Sees& sees) const {
  const std::lock_guard lock(mutex_);
  Cursor cursor;
  std::vector<std::pair<const Source*, std::uint64_t*>> open;
  for (const auto& [name, source] : sources_) {
    if (!MaySee(source.user, sees)) continue;
    std::uint64_t& had = cursor[name];
    had = source.dropped + source.kept.size();
    open.emplace_back(&source, &had);
  }
  std::size_t left = std::min(count, kNewestMax);
  while (left > 0) {
    const LoggedEvent* newest = nullptr;
    std::uint64_t* of_newest = nullptr;
    for (const auto& [source, had] : open) {
      const std::size_t at = *had - source->dropped;
      if (at == 0) continue;
      if (newest != nullptr && newest->number > source->kept[at - 1].number) continue;
      newest = &source->kept[at - 1];
      of_newest = had;
    }
    if (newest == nullptr) break;
    --*of_newest;
    if (MaySee(newest->user, sees)) --left;
  }
  return cursor;
}

}  // namespace mlxcomm::record
