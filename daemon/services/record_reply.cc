#include "daemon/services/record_reply.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/record/operation_life.h"
#include "daemon/record/record_text.h"
#include "daemon/services/visibility.h"
#include "proto/types/failure.h"
#include "proto/types/operation.h"

namespace mlxcomm::services {
namespace {

using record::Event;
using record::EventKind;
using record::FlightRecorder;
using record::GroupName;
using record::OperationLife;
using record::TrackCopy;
using record::TrackKind;

class Translation {
 public:
  Translation(const FlightRecorder& recorder, const v1::FlightRecordRequest& request,
              const intake::User& viewer, const RecordClocks& now)
      : request_(request), viewer_(viewer), now_(now) {
    for (GroupName& name : recorder.GroupNames()) groups_[name.id] = std::move(name);
  }

  // A group whose name was forgotten has no known user.
  bool IsSeen(std::uint64_t group) const {
    if (MaySeeAll(viewer_)) return true;
    const auto found = groups_.find(group);
    return found != groups_.end() && MaySee(viewer_, found->second.user);
  }
  bool IsWanted(std::uint64_t group) const {
    if (!IsSeen(group)) return false;
    const auto found = groups_.find(group);
    const bool job =
        request_.job().empty() || (found != groups_.end() && found->second.job == request_.job());
    const bool named = request_.group().empty() || request_.group() == absl::StrCat(group) ||
                       (found != groups_.end() && found->second.name == request_.group());
    return job && named;
  }
  void WriteOperation(const OperationLife& life, std::span<const TrackCopy> rails,
                      v1::RecordedOperation& reported) const {
    reported.set_group(life.name.group);
    if (const auto found = groups_.find(life.name.group); found != groups_.end()) {
      reported.set_group_name(found->second.name);
      reported.set_job(found->second.job);
    }
    reported.set_number(life.name.number);
    if (life.name.point_to_point()) {
      reported.set_point_to_point(true);
      reported.set_source_rank(life.name.source_rank);
      reported.set_destination_rank(life.name.destination_rank);
      reported.set_tag(life.name.tag);
    }
    reported.set_operation(record::DescribeCall(life));
    if (life.plan != 0) reported.set_plan(PlanKindName(static_cast<PlanKind>(life.plan)));
    reported.set_bytes(life.bytes);
    reported.set_state(record::StateOf(life));
    if (life.failed) reported.set_failure(FailureCodeName(static_cast<FailureCode>(life.code)));
    for (const OperationLife::Party& party : life.submitted) {
      v1::RecordedRank& rank = *reported.add_called();
      rank.set_rank(party.rank);
      rank.set_at_ns(Unix(party.time_ns));
    }
    for (const OperationLife::Party& party : life.heard) {
      v1::RecordedRank& rank = *reported.add_heard();
      rank.set_rank(party.rank);
      rank.set_node(NodeOf(life.name.group, party.rank));
      rank.set_at_ns(Unix(party.time_ns));
    }
    reported.set_matched_ns(Unix(life.matched_ns));
    reported.set_first_byte_ns(Unix(life.first_byte_ns));
    reported.set_last_byte_ns(Unix(life.last_byte_ns));
    reported.set_ended_ns(Unix(life.ended_ns));
    reported.set_last(LastOf(life));
    reported.set_sent_bytes(life.sent_bytes);
    reported.set_received_bytes(life.received_bytes);
    for (const OperationLife::Carrier& carrier : life.carriers) {
      v1::RecordedRail& rail = *reported.add_rails();
      rail.set_rail(rails[carrier.track].name);
      rail.set_frames(carrier.frames);
      rail.set_sent_bytes(carrier.sent_bytes);
      rail.set_received_bytes(carrier.received_bytes);
      rail.set_last_ns(Unix(carrier.last_ns));
      rail.set_at_least(carrier.at_least);
    }
  }
  void WriteTrack(const TrackCopy& track, const char* kind, v1::RecordedTrack& reported) const {
    reported.set_kind(kind);
    reported.set_name(track.name);
    reported.set_open(track.open);
    reported.set_spans_left_out(
        track.written > track.events.size() ? track.written - track.events.size() : 0);
    reported.set_since_ns(Unix(track.since_ns()));
    for (const Event& event : track.events) {
      if (!IsWanted(event.group)) continue;
      v1::RecordedSpan& span = *reported.add_spans();
      span.set_what(event.kind == EventKind::kSent       ? "sent"
                    : event.kind == EventKind::kReceived ? "received"
                                                         : "worked");
      span.set_begin_ns(Unix(event.time_ns));
      span.set_duration_ns(event.duration_ns);
      span.set_bytes(event.bytes);
      span.set_group(event.group);
      span.set_number(event.number);
      span.set_step(event.step);
      if (!event.name().point_to_point()) continue;
      span.set_point_to_point(true);
      span.set_source_rank(event.source_rank);
      span.set_destination_rank(event.destination_rank);
      span.set_tag(event.tag);
    }
  }

 private:
  std::uint64_t Unix(std::uint64_t time_ns) const {
    if (time_ns == 0) return 0;
    return time_ns <= now_.monotonic_ns ? now_.unix_ns - (now_.monotonic_ns - time_ns)
                                        : now_.unix_ns + (time_ns - now_.monotonic_ns);
  }
  std::string NodeOf(std::uint64_t group, std::uint32_t first_rank) const {
    const auto found = groups_.find(group);
    if (found == groups_.end()) return {};
    for (const GroupName::Node& node : found->second.nodes) {
      if (node.first_rank == first_rank) return node.name;
    }
    return {};
  }
  std::string LastOf(const OperationLife& life) const {
    const OperationLife::Last last = life.last();
    if (last.rank == record::kNobody) return {};
    if (!last.elsewhere) return absl::StrCat("rank ", last.rank);
    const std::string node = NodeOf(life.name.group, last.rank);
    return node.empty() ? absl::StrCat("the node of rank ", last.rank)
                        : absl::StrCat("node ", node);
  }

  const v1::FlightRecordRequest& request_;
  const intake::User& viewer_;
  RecordClocks now_;
  std::map<std::uint64_t, GroupName> groups_;
};

std::vector<TrackCopy> CopyAll(const FlightRecorder& recorder, TrackKind kind) {
  const std::size_t tracks = recorder.TrackCount(kind);
  return recorder.Copy(kind, tracks == 0 ? kSpansMax : kSpansMax / tracks);
}

// Writes as many of the newest as fit, oldest first.
void WriteNewest(const Translation& translation, std::span<const OperationLife> lives,
                 std::span<const TrackCopy> rails, v1::FlightRecordReply& reply) {
  constexpr std::size_t kFieldBytes = 6;   // Field number and length of an operation.
  constexpr std::size_t kCountBytes = 16;  // operations_left_out, which may grow.
  std::size_t bytes = reply.ByteSizeLong() + kCountBytes;
  std::vector<v1::RecordedOperation> newest;
  for (std::size_t left = lives.size(); left > 0; --left) {
    v1::RecordedOperation operation;
    translation.WriteOperation(lives[left - 1], rails, operation);
    bytes += operation.ByteSizeLong() + kFieldBytes;
    if (bytes > kReplyBytesMax) break;
    newest.push_back(std::move(operation));
  }
  const std::size_t left_out = lives.size() - newest.size();
  if (left_out > 0) reply.set_operations_left_out(reply.operations_left_out() + left_out);
  for (auto operation = newest.rbegin(); operation != newest.rend(); ++operation) {
    *reply.add_operations() = std::move(*operation);
  }
}

}  // namespace

void WriteRecordReply(const FlightRecorder& recorder, const v1::FlightRecordRequest& request,
                      const intake::User& viewer, const RecordClocks& now,
                      v1::FlightRecordReply& reply) {
  const Translation translation(recorder, request, viewer, now);
  reply.set_node(recorder.node());
  reply.set_taken_ns(now.unix_ns);
  std::vector<OperationLife> lives;
  for (const TrackCopy& loop : recorder.Copy(TrackKind::kLoop, FlightRecorder::kLoopEvents)) {
    lives = record::LivesOf(loop.events);  // There is one loop.
  }
  reply.set_operations_of_others(static_cast<std::uint64_t>(std::ranges::count_if(
      lives, [&](const OperationLife& life) { return !translation.IsSeen(life.name.group); })));
  std::erase_if(lives,
                [&](const OperationLife& life) { return !translation.IsWanted(life.name.group); });
  const std::size_t most = request.operations_max();
  if (most != 0 && lives.size() > most) {
    reply.set_operations_left_out(lives.size() - most);
    lives.erase(lives.begin(), lives.end() - static_cast<std::ptrdiff_t>(most));
  }
  const std::vector<TrackCopy> rails = CopyAll(recorder, TrackKind::kRail);
  record::AddCarriers(rails, lives);
  if (request.with_tracks()) {
    for (const TrackCopy& rail : rails) translation.WriteTrack(rail, "rail", *reply.add_tracks());
    for (const TrackCopy& worker : CopyAll(recorder, TrackKind::kWorker)) {
      translation.WriteTrack(worker, "worker", *reply.add_tracks());
    }
  }
  WriteNewest(translation, lives, rails, reply);
}

}  // namespace mlxcomm::services
