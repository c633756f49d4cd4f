#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/cli/text.h"
#include "client/ctl/record/render_record.h"

namespace mlxcomm::ctl {
namespace {

using google::protobuf::Struct;

constexpr std::uint32_t kProcess = 1;

void Set(Struct& object, const std::string& name, const std::string& text) {
  (*object.mutable_fields())[name].set_string_value(text);
}
void SetCount(Struct& object, const std::string& name, std::uint64_t count) {
  (*object.mutable_fields())[name].set_number_value(static_cast<double>(count));
}

struct Slice {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

class TraceWriter {
 public:
  explicit TraceWriter(std::uint64_t begin_ns) : begin_ns_(begin_ns) {
    trace_.set_displaytimeunit("ns");
  }

  void NameProcess(const std::string& name) {
    Set(*AddMetadata("process_name", 0).mutable_args(), "name", name);
  }
  // A new thread, shown below the existing ones.
  std::uint32_t AddThread(const std::string& name) {
    const std::uint32_t thread = ++threads_;
    Set(*AddMetadata("thread_name", thread).mutable_args(), "name", name);
    SetCount(*AddMetadata("thread_sort_index", thread).mutable_args(), "sort_index", thread);
    return thread;
  }
  v1::TraceEvent& AddSlice(std::uint32_t thread, const Slice& slice, const std::string& name,
                           const std::string& category) {
    v1::TraceEvent& event = AddEvent("X", name, thread);
    event.set_cat(category);
    event.set_ts(Microseconds(slice.begin_ns - begin_ns_));
    event.set_dur(Microseconds(slice.end_ns - slice.begin_ns));
    return event;
  }
  // Marks the time before the oldest record, which would otherwise look idle.
  void AddGap(std::uint32_t thread, std::uint64_t until_ns) {
    if (until_ns > begin_ns_) AddSlice(thread, {begin_ns_, until_ns}, "no longer recorded", "gap");
  }
  v1::Trace Take(const v1::FlightRecordReply& record) {
    Set(*trace_.mutable_otherdata(), "node", Shown(record.node()));
    Set(*trace_.mutable_otherdata(), "begin_unix_ns", std::to_string(begin_ns_));
    return std::move(trace_);
  }

 private:
  static double Microseconds(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }
  v1::TraceEvent& AddEvent(const std::string& phase, const std::string& name,
                           std::uint32_t thread) {
    v1::TraceEvent& event = *trace_.add_traceevents();
    event.set_ph(phase);
    event.set_name(name);
    event.set_pid(kProcess);
    event.set_tid(thread);
    return event;
  }
  v1::TraceEvent& AddMetadata(const std::string& name, std::uint32_t thread) {
    return AddEvent("M", name, thread);
  }

  std::uint64_t begin_ns_;
  v1::Trace trace_;
  std::uint32_t threads_ = 0;
};

// Spreads a rank's overlapping operations over several threads.
class RankThreads {
 public:
  RankThreads(TraceWriter& trace, std::string name) : trace_(trace), name_(std::move(name)) {
    lanes_.push_back({trace_.AddThread(name_), 0});
  }
  std::uint32_t ThreadFor(const Slice& slice) {
    for (Lane& lane : lanes_) {
      if (lane.busy_until_ns > slice.begin_ns) continue;
      lane.busy_until_ns = slice.end_ns;
      return lane.thread;
    }
    lanes_.push_back({trace_.AddThread(name_ + ", at the same time"), slice.end_ns});
    return lanes_.back().thread;
  }

 private:
  struct Lane {
    std::uint32_t thread;
    std::uint64_t busy_until_ns;
  };
  TraceWriter& trace_;
  std::string name_;
  std::vector<Lane> lanes_;
};

void AddPhase(TraceWriter& trace, std::uint32_t thread, const Slice& whole, const Phase& phase,
              const char* name) {
  if (phase.begin_ns == 0) return;
  const Slice slice{std::clamp(phase.begin_ns, whole.begin_ns, whole.end_ns),
                    std::clamp(phase.end_ns, whole.begin_ns, whole.end_ns)};
  if (slice.end_ns > slice.begin_ns) trace.AddSlice(thread, slice, name, "phase");
}

void AddOperation(TraceWriter& trace, std::uint32_t thread, const Slice& slice,
                  const v1::RecordedOperation& operation, std::uint64_t now_ns) {
  Struct& arguments =
      *trace.AddSlice(thread, slice, DescribeRecorded(operation), "operation").mutable_args();
  Set(arguments, "state", operation.failure().empty() ? operation.state() : operation.failure());
  Set(arguments, "group", Shown(operation.group_name()));
  Set(arguments, "last", Shown(operation.last()));
  Set(arguments, "plan", operation.plan());
  SetCount(arguments, "bytes", operation.bytes());
  SetCount(arguments, "sent_bytes", operation.sent_bytes());
  SetCount(arguments, "received_bytes", operation.received_bytes());
  const Phases phases = PhasesOf(operation, now_ns);
  const bool moves = phases.data.begin_ns != 0;
  AddPhase(trace, thread, slice, phases.ranks, "waits for ranks here");
  AddPhase(trace, thread, slice, phases.peers, "waits for other nodes");
  AddPhase(trace, thread, slice, phases.data, "moves data");
  AddPhase(trace, thread, slice, phases.end, moves ? "ends" : "works on this node");
}

void AddRanks(TraceWriter& trace, const v1::FlightRecordReply& record) {
  using Key = std::pair<std::string, std::uint32_t>;  // Group, rank.
  std::map<Key, std::vector<std::pair<Slice, const v1::RecordedOperation*>>> ranks;
  for (const v1::RecordedOperation& operation : record.operations()) {
    const std::string group = operation.group_name().empty() ? std::to_string(operation.group())
                                                             : Shown(operation.group_name());
    const std::uint64_t end = operation.ended_ns() != 0 ? operation.ended_ns() : record.taken_ns();
    for (const v1::RecordedRank& called : operation.called()) {
      const Slice slice{called.at_ns(), std::max(end, called.at_ns())};
      ranks[{group, called.rank()}].emplace_back(slice, &operation);
    }
  }
  for (auto& [key, operations] : ranks) {
    std::ranges::stable_sort(operations, {}, [](const auto& one) { return one.first.begin_ns; });
    RankThreads threads(trace, "rank " + std::to_string(key.second) + " of " + key.first);
    for (const auto& [slice, operation] : operations) {
      AddOperation(trace, threads.ThreadFor(slice), slice, *operation, record.taken_ns());
    }
  }
}

struct Placed {
  Slice slice;
  const v1::RecordedSpan* span;
};

// Places spans without overlap, in the order of their ends. Spans with the same end share the time
// by their bytes.
std::vector<Placed> OneAfterTheOther(const v1::RecordedTrack& track, const std::string& what) {
  std::vector<Placed> placed;
  for (const v1::RecordedSpan& span : track.spans()) {
    if (span.what() != what) continue;
    placed.push_back({{span.begin_ns(), span.begin_ns() + span.duration_ns()}, &span});
  }
  std::ranges::stable_sort(placed, {}, [](const Placed& one) { return one.slice.end_ns; });
  constexpr std::uint64_t kHeaderBytes = 128;  // A frame without payload has a cost, too.
  std::uint64_t free_ns = 0;
  for (std::size_t first = 0; first < placed.size();) {
    const std::uint64_t end_ns = placed[first].slice.end_ns;
    std::uint64_t begin_ns = end_ns;
    std::uint64_t weight = 0;
    std::size_t last = first;
    for (; last < placed.size() && placed[last].slice.end_ns == end_ns; ++last) {
      begin_ns = std::min(begin_ns, placed[last].slice.begin_ns);
      weight += placed[last].span->bytes() + kHeaderBytes;
    }
    begin_ns = std::min(std::max(begin_ns, free_ns), end_ns);
    const double scale = static_cast<double>(end_ns - begin_ns) / static_cast<double>(weight);
    std::uint64_t before = 0;
    for (; first < last; ++first) {
      Slice& slice = placed[first].slice;
      slice.begin_ns = begin_ns + static_cast<std::uint64_t>(static_cast<double>(before) * scale);
      before += placed[first].span->bytes() + kHeaderBytes;
      slice.end_ns = begin_ns + static_cast<std::uint64_t>(static_cast<double>(before) * scale);
    }
    placed[last - 1].slice.end_ns = end_ns;
    free_ns = end_ns;
  }
  return placed;
}

void AddSpans(TraceWriter& trace, const v1::RecordedTrack& track, const std::string& what,
              const std::string& name, const std::map<std::uint64_t, std::string>& groups) {
  const std::uint32_t thread = trace.AddThread(name);
  if (track.spans_left_out() > 0) trace.AddGap(thread, track.since_ns());
  for (const auto& [slice, span] : OneAfterTheOther(track, what)) {
    const auto group = groups.find(span->group());
    std::string title = (group != groups.end() ? group->second : std::to_string(span->group())) +
                        " " + std::to_string(span->number());
    if (span->point_to_point()) {
      title += " " + std::to_string(span->source_rank()) + ">" +
               std::to_string(span->destination_rank()) + " tag " + std::to_string(span->tag());
    }
    Struct& arguments = *trace.AddSlice(thread, slice, title, track.kind()).mutable_args();
    SetCount(arguments, "bytes", span->bytes());
    SetCount(arguments, "step", span->step());
  }
}

std::uint64_t FirstMoment(const v1::FlightRecordReply& record) {
  std::uint64_t first = record.taken_ns();
  for (const v1::RecordedOperation& operation : record.operations()) {
    for (const v1::RecordedRank& rank : operation.called()) first = std::min(first, rank.at_ns());
  }
  for (const v1::RecordedTrack& track : record.tracks()) {
    for (const v1::RecordedSpan& span : track.spans()) first = std::min(first, span.begin_ns());
  }
  return first;
}

}  // namespace

v1::Trace RenderTrace(const v1::FlightRecordReply& record) {
  TraceWriter trace(FirstMoment(record));
  trace.NameProcess("node " + Shown(record.node()) + " (mlxcommd)");
  AddRanks(trace, record);
  std::map<std::uint64_t, std::string> groups;
  for (const v1::RecordedOperation& operation : record.operations()) {
    if (!operation.group_name().empty()) {
      groups[operation.group()] = Shown(operation.group_name());
    }
  }
  for (const v1::RecordedTrack& track : record.tracks()) {
    const std::string name = Shown(track.name()) + (track.open() ? "" : " (gone)");
    if (track.kind() == "worker") {
      AddSpans(trace, track, "worked", name, groups);
    } else {
      AddSpans(trace, track, "sent", name + ", sent", groups);
      AddSpans(trace, track, "received", name + ", received", groups);
    }
  }
  return trace.Take(record);
}

}  // namespace mlxcomm::ctl
