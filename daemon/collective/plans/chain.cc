#include <algorithm>

#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"
#include "daemon/collective/plans/ring.h"

namespace mlxcomm::collective {
namespace {

// A reducing chain works in segments, so that what a node accumulates fits a few slots of scratch
// memory.
constexpr std::uint64_t kSegmentBytes = 4 * 1024 * 1024;
constexpr std::uint64_t kSegmentsMax = 32 * 1024;  // Each has a tag.
constexpr std::uint64_t kSegmentSlots = 4;

void Broadcast(PlanWriter& writer, int direction, const Part& elements) {
  const Ring ring{writer.nodes(), direction};
  const int place = ring.PlaceOf(writer.self());
  const int distance = ring.Around(place - ring.PlaceOf(writer.RootNode()));
  const std::uint64_t offset = elements.offset * writer.element_bytes();
  const std::uint64_t bytes = elements.count * writer.element_bytes();
  PlanWriter::Value value{InputOf(writer.RootLocal(), offset), Step::kNone};
  if (distance > 0) {
    value.place = OutputOf(0, offset);
    value.step = writer.Receive(ring.NodeAt(place - 1), 0, value.place, bytes);
  }
  if (distance + 1 < ring.nodes) {
    writer.Send(ring.NodeAt(place + 1), 0, value.place, bytes, {value.step});
  }
  if (distance > 0) writer.Deliver(offset, bytes, value.step);
}

void Reduce(PlanWriter& writer, int direction, const Part& elements) {
  const Ring ring{writer.nodes(), direction};
  const int place = ring.PlaceOf(writer.self());
  const int distance = ring.Around(ring.PlaceOf(writer.RootNode()) - place);  // Leads to the root.
  const int next = ring.NodeAt(place + 1);
  const int previous = ring.NodeAt(place - 1);
  const std::uint64_t bytes = elements.count * writer.element_bytes();
  const std::uint64_t segments = std::min(
      std::max<std::uint64_t>((bytes + kSegmentBytes - 1) / kSegmentBytes, 1), kSegmentsMax);
  const std::uint64_t segment_bytes_max =
      PartOf(elements.count, segments, 0).count * writer.element_bytes();
  const bool first = distance == ring.nodes - 1;
  const bool has_scratch = distance > 0 && (!first || writer.several_local());
  const std::uint64_t scratch =
      has_scratch ? writer.plan().AddScratch(segment_bytes_max * std::min(kSegmentSlots, segments))
                  : 0;
  std::int32_t last_reader[kSegmentSlots] = {Step::kNone, Step::kNone, Step::kNone, Step::kNone};
  for (std::uint64_t tag = 0; tag < segments; ++tag) {
    const Part part = PartOf(elements.count, segments, tag);
    const std::uint64_t part_bytes = part.count * writer.element_bytes();
    const std::uint64_t offset = (elements.offset + part.offset) * writer.element_bytes();
    const Place work = distance == 0 ? OutputOf(writer.RootLocal(), offset)
                                     : ScratchAt(scratch + tag % kSegmentSlots * segment_bytes_max);
    std::int32_t& reader = last_reader[tag % kSegmentSlots];
    PlanWriter::Value value = writer.Contribution(offset, work, part_bytes, {reader});
    if (!first) {
      value = {work, writer.ReduceReceived(previous, tag, value.place, work, part_bytes,
                                           {value.step, reader})};
    }
    if (distance > 0) {
      reader = writer.Send(next, tag, value.place, part_bytes, {value.step});
    } else {
      writer.Finish(value.step);
    }
  }
}

}  // namespace

void RingBroadcast(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  if (writer.AtRoot()) {
    writer.Copy(InputOf(writer.RootLocal(), 0), Everyones(OutputOf(0, 0)), writer.bytes());
  }
  ForEachDirection(writer.nodes(), writer.count(), [&](int direction, const Part& elements) {
    Broadcast(writer, direction, elements);
  });
}

void RingReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  ForEachDirection(writer.nodes(), writer.count(), [&](int direction, const Part& elements) {
    Reduce(writer, direction, elements);
  });
}

}  // namespace mlxcomm::collective
