#include "daemon/record/flight_recorder.h"

#include <algorithm>

namespace mlxcomm::record {

std::uint64_t TrackCopy::since_ns() const {
  if (written <= events.size() || events.empty()) return 0;
  std::uint64_t since = ~std::uint64_t{0};  // Events are ordered by their ends, not their times.
  for (const Event& event : events) since = std::min(since, event.time_ns);
  return since;
}

// Returns the track that was closed first, once enough are closed or there is no room for more.
FlightRecorder::Track* FlightRecorder::TrackToReuse(TrackKind kind) {
  Track* oldest = nullptr;
  std::size_t closed = 0;
  for (const auto& track : tracks_) {
    if (track->open || track->kind != kind) continue;
    ++closed;
    if (oldest == nullptr || track->closed_at < oldest->closed_at) oldest = track.get();
  }
  return closed >= kClosedTracksKept || tracks_.size() >= kTracksMax ? oldest : nullptr;
}

EventRing* FlightRecorder::AddTrack(TrackKind kind, std::string name) {
  const std::lock_guard lock(mutex_);
  if (Track* const track = TrackToReuse(kind); track != nullptr) {
    track->name = std::move(name);
    track->open = true;
    track->first = track->ring->written();
    return track->ring.get();
  }
  if (tracks_.size() >= kTracksMax) return nullptr;
  auto track = std::make_unique<Track>();
  track->kind = kind;
  track->name = std::move(name);
  track->ring = std::make_unique<EventRing>(kind == TrackKind::kLoop ? loop_events_ : kRailEvents);
  tracks_.push_back(std::move(track));
  return tracks_.back()->ring.get();
}

void FlightRecorder::CloseTrack(const EventRing* closed) {
  const std::lock_guard lock(mutex_);
  for (const auto& track : tracks_) {
    if (track->ring.get() != closed || !track->open) continue;
    track->open = false;
    // A track without events is reused first.
    track->closed_at = closed->written() == track->first ? 0 : ++closings_;
  }
}

std::size_t FlightRecorder::TrackCount(TrackKind kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(tracks_, [kind](const auto& track) { return track->kind == kind; }));
}

std::vector<TrackCopy> FlightRecorder::Copy(TrackKind kind, std::size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<TrackCopy> copies;
  for (const auto& track : tracks_) {
    if (track->kind != kind) continue;
    TrackCopy& copy = copies.emplace_back();
    copy.name = track->name;
    copy.open = track->open;
    copy.written = track->ring->written() - track->first;
    track->ring->Copy(most, track->first, copy.events);
  }
  return copies;
}

void FlightRecorder::NameGroup(GroupName name) {
  if (name.nodes.size() > kNodesNamedMax) name.nodes.resize(kNodesNamedMax);
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = name.id;
  open_groups_[id] = std::move(name);
}

void FlightRecorder::CloseGroup(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  auto closed = open_groups_.extract(id);
  if (closed.empty()) return;
  if (gone_groups_.size() == kGroupsGoneNamed) gone_groups_.pop_front();
  gone_groups_.push_back(std::move(closed.mapped()));
}

std::vector<GroupName> FlightRecorder::GroupNames() const {
  const std::lock_guard lock(mutex_);
  std::vector<GroupName> names(gone_groups_.begin(), gone_groups_.end());
  for (const auto& [id, name] : open_groups_) names.push_back(name);
  return names;
}

}  // namespace mlxcomm::record
