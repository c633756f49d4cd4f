// The flight recorder: the last events of every thread that works on operations, always
// on, and read while they are being written.
//
//   loop ────▶ track (operations' lives) ─┐
//   rail ────▶ track (frames)             ├─▶ Copy, by any thread
//   worker ──▶ track (pieces of work)    ─┘
//
// A track is a ring with one writer, and stays readable after it (README.md, Decisions). Names of
// groups are kept apart, because events hold only numbers and groups end.
//
// Owner: Daemon. Thread: a track is written by one thread, without lock or allocation;
// everything else from any, under a mutex that no writing ever takes.
// Memory: tracks are allocated whole when they are added, kTracksMax at the most; a name
// for each group there is, which the core bounds, and for the last kGroupsGoneNamed.
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

// A group, with the names that readers of its events show.
struct GroupName {
  struct Node {
    std::uint32_t first_rank = 0;
    std::string name;
  };
  std::uint64_t id = 0;
  std::string user;  // The job's user, who may read it.
  std::string job;
  std::string name;
  std::vector<Node> nodes;  // At most kNodesNamedMax.
};

struct TrackCopy {
  TrackKind kind = TrackKind::kLoop;
  std::string name;
  bool open = false;          // Its writer has not ended.
  std::uint64_t written = 0;  // Events since it was opened.
  std::vector<Event> events;  // Oldest first.

  // The time since which nothing is missing; 0: the beginning.
  std::uint64_t since_ns() const;
};

class FlightRecorder {
 public:
  static constexpr std::size_t kLoopEvents = 16384;
  static constexpr std::size_t kRailEvents = 2048;
  static constexpr std::size_t kWorkerEvents = 2048;
  static constexpr std::size_t kTracksMax = 64;
  static constexpr std::size_t kClosedTracksKept = 4;
  static constexpr std::size_t kGroupsGoneNamed = 256;
  static constexpr std::size_t kNodesNamedMax = 64;

  // Keeps the last `loop_events` events of operations' lives, a power of two.
  explicit FlightRecorder(std::string node, std::size_t loop_events = kLoopEvents)
      : node_(std::move(node)), loop_events_(loop_events) {}

  // The track to which one thread writes from now on, until CloseTrack; nullptr: all places are taken, and no
  // track of the kind has ended.
  [[nodiscard]] EventRing* AddTrack(TrackKind kind, std::string name);
  void CloseTrack(const EventRing* track);

  const std::string& node() const { return node_; }  // The node that records.
  std::size_t TrackCount(TrackKind kind) const;
  // For each track of the kind its newest events, at most `most`.
  std::vector<TrackCopy> Copy(TrackKind kind, std::size_t most) const;

  void NameGroup(GroupName name);  // A second call for a group replaces its name.
  void CloseGroup(std::uint64_t id);
  // Names of groups that have ended, oldest first, then those of all open ones.
  std::vector<GroupName> GroupNames() const;

 private:
  struct Track {
    TrackKind kind = TrackKind::kLoop;
    std::string name;
    bool open = true;
    std::uint64_t closed_at = 0;  // The number of its closing; 0: it has nothing to show.
    std::uint64_t first = 0;      // Events before it belong to the ring's previous writer.
    std::unique_ptr<EventRing> ring;
  };
  Track* TrackToReuse(TrackKind kind);

  std::size_t EventsOf(TrackKind kind) const;

  const std::string node_;
  const std::size_t loop_events_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Track>> tracks_;
  std::uint64_t closings_ = 0;
  std::map<std::uint64_t, GroupName> open_groups_;
  std::deque<GroupName> gone_groups_;
};

}  // namespace mlxcomm::record
