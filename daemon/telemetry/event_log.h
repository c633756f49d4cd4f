// What has happened to this daemon, for people: nodes, links and rails that came and went,
// jobs, strangers. The last kKeptMax of it, in memory.
//
//   Add ──▶ [ oldest ... newest ] ──▶ Read(from) ──▶ each reader at its own pace
//              └─ overwritten; a reader that comes for it is told how many it has lost
//
// Owner: Daemon. Thread: any, for all of it: events are rare, so there is a lock; it is held
// for a copy of at most as many events as a reader asks for, and by nobody who waits.
// Memory: kKeptMax events with texts of at most kTextBytesMax bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::telemetry {

enum class EventSeverity : std::uint8_t { kNote, kWarning, kError };

struct LoggedEvent {
  std::uint64_t number = 0;   // From 1 on, without gaps.
  std::uint64_t unix_ns = 0;
  std::string kind;           // "rail_down"
  EventSeverity severity = EventSeverity::kNote;
  std::string object;         // "link to studio-2"
  std::string text;
  std::optional<std::string> user;  // Whose it is (proto/types/job_id.h); else everybody's.
};

class EventLog {
 public:
  static constexpr std::size_t kKeptMax = 1024;
  static constexpr std::size_t kTextBytesMax = 1000;
  static constexpr std::size_t kObjectBytesMax = 256;

  // `unix_ns` is the caller's clock; texts that are too long are cut.
  void Add(LoggedEvent event);

  struct Part {
    std::vector<LoggedEvent> events;
    std::uint64_t lost = 0;  // Between `from` and the first of them.
    std::uint64_t next = 0;  // Where to go on.
  };
  // At most `events_max` from the one with number `from` on.
  Part Read(std::uint64_t from, std::size_t events_max) const;
  // The number that the next event will have.
  std::uint64_t next() const;

 private:
  mutable std::mutex mutex_;
  std::deque<LoggedEvent> kept_;
  std::uint64_t next_ = 1;
};

const char* SeverityName(EventSeverity severity);

}  // namespace mlxcomm::telemetry
