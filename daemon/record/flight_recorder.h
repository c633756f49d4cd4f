// The flight recorder: the last events of every thread that works on operations. It is always on,
// and can be read at any time.
//
//   loop ────▶ track (operations' lives) ─┐
//   rail ────▶ track (frames)             ├─▶ Copy, by any thread
//   worker ──▶ track (pieces of work)    ─┘
//
// A track is a ring with one writer, and stays readable after the writer ends. Group names are
// stored separately, because events hold only numbers and groups end.
//
// Owner: Daemon. Thread: one thread writes a track, without lock or allocation; everything else
// from any thread, under a mutex that writers never take. Memory: tracks are allocated when they
// are added, at most kTracksMax; a name for each open group, which the core bounds, and for the
// last kGroupsGoneNamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/record/event_ring.h"

namespace mlxcomm::record {

enum class TrackKind : std::uint8_t { kLoop, kRail, kWorker };

// The names that readers show for a group.
struct GroupName {
  struct Node {
    std::uint32_t first_rank = 0;
    std::string name;
  };
  std::uint64_t id = 0;
  std::string user;  // The job's owner, who may read its events.
  std::string job;
  std::string name;
  std::vector<Node> nodes;  // Holds at most kNodesNamedMax.
};

struct TrackCopy {
  std::string name;
  bool open = false;          // It still has a writer.
  std::uint64_t written = 0;  // Events since it was opened.
  std::vector<Event> events;  // Oldest first.

  // The time from which the track is complete; 0: from its beginning.
  std::uint64_t since_ns() const;
};

class FlightRecorder {
 public:
  static constexpr std::size_t kLoopEvents = 16384;
  static constexpr std::size_t kRailEvents = 2048;  // Also a worker's.
  static constexpr std::size_t kTracksMax = 64;
  static constexpr std::size_t kClosedTracksKept = 4;
  static constexpr std::size_t kGroupsGoneNamed = 256;
  static constexpr std::size_t kNodesNamedMax = 64;

  // `loop_events` is the size of the loop's track, a power of two.
  explicit FlightRecorder(std::string node, std::size_t loop_events = kLoopEvents)
      : node_(std::move(node)), loop_events_(loop_events) {}

  // Returns a track for one thread to write until CloseTrack; nullptr: all kTracksMax are in use,
  // and no closed track of this kind can be reused.
  [[nodiscard]] EventRing* AddTrack(TrackKind kind, std::string name);
  void CloseTrack(const EventRing* track);

  const std::string& node() const { return node_; }
  std::size_t TrackCount(TrackKind kind) const;
  // Copies the newest events of each track of the kind, at most `most` of each.
  std::vector<TrackCopy> Copy(TrackKind kind, std::size_t most) const;

  void NameGroup(GroupName name);
  void CloseGroup(std::uint64_t id);
  // Names of closed groups, oldest first, then of all open groups.
  std::vector<GroupName> GroupNames() const;

 private:
  struct Track {
    TrackKind kind = TrackKind::kLoop;
    std::string name;
    bool open = true;
    std::uint64_t closed_at = 0;  // Orders closed tracks; 0: it has no events.
    std::uint64_t first = 0;      // Earlier events belong to the ring's previous writer.
    std::unique_ptr<EventRing> ring;
  };
  Track* TrackToReuse(TrackKind kind);

  const std::string node_;
  const std::size_t loop_events_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Track>> tracks_;
  std::uint64_t closings_ = 0;
  std::map<std::uint64_t, GroupName> open_groups_;
  std::deque<GroupName> gone_groups_;
};

}  // namespace mlxcomm::record
