// The newest events of this daemon, in memory, for people: changes of nodes, links and rails, jobs,
// refused strangers.
//
//   Add ──▶ source "rail_down"         [ oldest ... newest ] ──┐
//   Add ──▶ source "stranger_refused"  [ oldest ... newest ] ──┼─by number─▶ Read(cursor, ...)
//   Add ──▶ source of user "alice"     [ oldest ... newest ] ──┘  each reader at its own pace
//                 └─ overwritten; the reader gets the number of events it has lost
//
// Each kind of event has its own ring, and so does each user's jobs. So a flood of strangers, a
// flapping cable or a thousand short jobs overwrite only their own ring. Users beyond the first
// kUsersMax share a ring.
//
// Owner: Daemon. Thread: any, with a lock, because events are rare. Memory: kKeptMax events for
// each source, with texts of at most kTextBytesMax bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::record {

enum class EventSeverity : std::uint8_t { kNote, kWarning, kError };
inline constexpr const char* kSeverityNames[] = {"note", "warning", "error"};

struct LoggedEvent {
  std::uint64_t number = 0;  // From 1, without gaps.
  std::uint64_t unix_ns = 0;
  std::string kind;  // "rail_down"
  EventSeverity severity = EventSeverity::kNote;
  std::string object;  // "link to studio-2"
  std::string text;
  std::optional<std::string> user = {};  // Its owner (proto/types/job_id.h); empty: visible to all.
};

// Where a node's events go: the log, or the simulator.
class EventSink {
 public:
  virtual void Add(LoggedEvent event) = 0;
  // Makes the texts printable first, because parts of them come from other nodes and processes.
  void Report(const char* kind, EventSeverity severity, std::string_view object,
              std::string_view text, std::optional<std::string> user = {});

 protected:
  ~EventSink() = default;
};

class EventLog final : public EventSink {
 public:
  static constexpr std::size_t kKeptMax = 256;  // Applies to each source.
  static constexpr std::size_t kUsersMax = 48;
  static constexpr std::size_t kNewestMax = 1024;
  static constexpr std::size_t kTextBytesMax = 1000;
  static constexpr std::size_t kObjectBytesMax = 256;

  // Counts the events of each source that a reader has read.
  using Cursor = std::map<std::string, std::uint64_t>;
  // Returns true if the reader may see this user's events.
  using Sees = std::function<bool(const std::string& user)>;

  // Sets the event's number and time, and truncates long texts.
  void Add(LoggedEvent event) override;

  struct Part {
    std::vector<LoggedEvent> events;
    std::uint64_t lost = 0;  // Counts events lost before the first of them.
  };
  // Returns at most `events_max` events that the reader has not read, oldest first.
  Part Read(Cursor& cursor, std::size_t events_max, const Sees& sees) const;
  // Returns a cursor before the newest `count` events (at most kNewestMax) that the reader may see.
  Cursor Newest(std::size_t count, const Sees& sees) const;

 private:
  struct Source {
    std::optional<std::string> user;  // The owner of all its events.
    std::deque<LoggedEvent> kept;
    std::uint64_t dropped = 0;  // Older events.
  };

  Source& SourceOf(const LoggedEvent& event);

  mutable std::mutex mutex_;
  std::map<std::string, Source> sources_;
  std::size_t users_ = 0;
  std::uint64_t next_ = 1;
};

}  // namespace mlxcomm::record
