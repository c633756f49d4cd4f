// The newest events of this daemon, for people, in memory: nodes, links and rails that came and went, jobs,
// refused strangers.
//
//   Add ──▶ source "rail_down"         [ oldest ... newest ] ──┐
//   Add ──▶ source "stranger_refused"  [ oldest ... newest ] ──┼─by number─▶ Read(cursor, ...)
//   Add ──▶ source of user "alice"     [ oldest ... newest ] ──┘  each reader at its own pace
//                 └─ overwritten; a reader that wanted it learns how many it has lost
//
// Each kind has a ring of its own, and so has each user for the events of its jobs. So endless connections of
// strangers, a flapping cable, or a user's thousand short jobs overwrite only events of their own ring. Users
// beyond the first kUsersMax share one.
//
// Owner: Daemon. Thread: any, for all of it: events are rare, so there is a lock; it is held while the events
// that a reader asks for are copied, and never during a wait.
// Memory: kKeptMax events for each source, with texts of at most kTextBytesMax bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mlxcomm::record {

enum class EventSeverity : std::uint8_t { kNote, kWarning, kError };

struct LoggedEvent {
  std::uint64_t number = 0;  // From 1 on, without gaps.
  std::uint64_t unix_ns = 0;
  std::string kind;  // "rail_down"
  EventSeverity severity = EventSeverity::kNote;
  std::string object;  // "link to studio-2"
  std::string text;
  std::optional<std::string> user = {};  // Its user (proto/types/job_id.h); empty: visible to all.
};

class EventLog {
 public:
  static constexpr std::size_t kKeptMax = 256;  // Of one source.
  static constexpr std::size_t kUsersMax = 48;
  static constexpr std::size_t kNewestMax = 1024;
  static constexpr std::size_t kTextBytesMax = 1000;
  static constexpr std::size_t kObjectBytesMax = 256;

  // How many events of each source a reader has read.
  using Cursor = std::map<std::string, std::uint64_t>;
  // Whether the reader may see this user's events (LoggedEvent::user).
  using Sees = std::function<bool(const std::string& user)>;

  // `unix_ns` is the caller's clock; texts that are too long are cut.
  void Add(LoggedEvent event);

  struct Part {
    std::vector<LoggedEvent> events;
    std::uint64_t lost = 0;  // Before the first of them.
  };
  // At most `events_max` events that the reader has not read, oldest first.
  Part Read(Cursor& cursor, std::size_t events_max, const Sees& sees) const;
  // A cursor before the newest `count` events that the reader may see, or kNewestMax, or as many as are kept.
  Cursor Newest(std::size_t count, const Sees& sees) const;

 private:
  struct Source {
    std::optional<std::string> user;  // All its events belong to this user.
    std::deque<LoggedEvent> kept;
    std::uint64_t dropped = 0;  // Before the first that is kept.
  };

  Source& SourceOf(const LoggedEvent& event);

  mutable std::mutex mutex_;
  std::map<std::string, Source> sources_;
  std::size_t users_ = 0;
  std::uint64_t next_ = 1;
};

const char* SeverityName(EventSeverity severity);

}  // namespace mlxcomm::record
