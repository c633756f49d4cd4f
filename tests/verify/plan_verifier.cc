#include "tests/verify/plan_verifier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/verify/expected_result.h"
#include "tests/verify/optimal_bytes.h"
#include "tests/verify/step_order.h"
#include "tests/verify/symbolic_memory.h"

namespace mlxcomm::collective {
namespace {

// A range of one buffer that a step touches.
struct Access {
  std::size_t buffer = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool writes = false;
  StepRef step;
};

// The elements that the rank reads and writes.
OperationShape ShapeAt(const WholeOperation& operation, std::uint32_t rank) {
  const Signature& signature = operation.signature;
  ShapeRequest request;
  request.kind = signature.kind;
  request.count = signature.count;
  request.rank = rank;
  request.size = operation.size();
  request.root = signature.root;
  const std::uint32_t tables = CountsPerRank(signature.kind);
  if (tables > 0) request.counts = operation.counts[tables == 1 ? 0 : rank];
  OperationShape shape;
  if (!ShapeOf(request, shape)) return {};
  if (!IsPointToPoint(signature.kind)) return shape;
  // Both ends of the operation at once.
  shape.reads = rank == operation.ends.source_rank;
  shape.writes = rank == operation.ends.destination_rank;
  shape.input_elements = shape.reads ? signature.count : 0;
  shape.output_elements = shape.writes ? signature.count : 0;
  return shape;
}

class Verifier {
 public:
  Verifier(const WholeOperation& operation, std::span<const Plan> plans)
      : operation_(operation),
        plans_(plans),
        layout_(operation.members, operation.members.front().node),
        order_(plans) {}

  absl::StatusOr<PlanReport> Verify() {
    if (plans_.size() != layout_.node_count()) {
      return absl::InternalError(
          absl::StrCat("plans of ", plans_.size(), " nodes for a group of ", layout_.node_count()));
    }
    MakeBuffers();
    for (const auto check : {&Verifier::CheckPlaces, &Verifier::CheckOrder, &Verifier::CheckRaces,
                             &Verifier::CarryOut, &Verifier::CheckOutputs, &Verifier::CheckLinks}) {
      if (absl::Status status = (this->*check)(); !status.ok()) return status;
    }
    return report_;
  }

 private:
  // Buffers: inputs by rank, outputs by rank, scratch by node.
  void MakeBuffers() {
    const std::uint32_t size = operation_.size();
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      const std::uint64_t bytes =
          ShapeAt(operation_, rank).input_elements * operation_.element_bytes();
      buffers_.emplace_back(bytes);
      if (bytes > 0) buffers_.back().Write(0, {{bytes, expressions_.Leaf(rank), 0}});
    }
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      buffers_.emplace_back(OutputBytes(rank));
      const OperationShape shape = ShapeAt(operation_, rank);
      aliased_.push_back(operation_.in_place && shape.reads && shape.writes);
      if (aliased_.back()) std::swap(buffers_[rank], buffers_.back());
    }
    for (const Plan& plan : plans_) buffers_.emplace_back(plan.scratch_bytes);
  }
  std::uint64_t OutputBytes(std::uint32_t rank) const {
    return ShapeAt(operation_, rank).output_elements * operation_.element_bytes();
  }
  std::size_t BufferOf(std::uint16_t node, const Place& place, std::int32_t local) const {
    if (place.side == Place::Side::kScratch) return 2 * operation_.size() + node;
    const std::uint32_t rank = layout_.ranks_on(node)[static_cast<std::size_t>(local)];
    const bool output = place.side == Place::Side::kOutput || aliased_[rank];
    return output ? operation_.size() + rank : rank;
  }
  std::string NameOf(std::size_t buffer) const {
    const std::uint32_t size = operation_.size();
    if (buffer >= 2 * size) return "scratch memory";
    return absl::StrCat(buffer >= size ? "output of rank " : "input of rank ", buffer % size);
  }

  struct Range {
    std::size_t buffer = 0;
    std::uint64_t offset = 0;
  };
  std::vector<Range> RangesOf(std::uint16_t node, const Place& place) const {
    std::vector<Range> ranges;
    if (place.local_rank != Place::kEveryLocalRank || place.side == Place::Side::kScratch) {
      return {{BufferOf(node, place, place.local_rank), place.offset}};
    }
    const auto locals = static_cast<std::int32_t>(layout_.ranks_on(node).size());
    for (std::int32_t i = 0; i < locals; ++i) {
      ranges.push_back({BufferOf(node, place, i), place.offset});
    }
    return ranges;
  }
  std::vector<Range> SourcesOf(const StepRef& ref) const {
    const Step& step = order_.At(ref);
    if (step.kind == StepKind::kReceive) return {};
    std::vector<Range> sources = RangesOf(ref.node, step.source);
    if (step.kind != StepKind::kLocal) return sources;
    for (std::uint32_t i = 1; i < step.source_count; ++i) {
      sources.push_back({sources.front().buffer, step.source.offset + i * step.source_stride});
    }
    return sources;
  }
  std::vector<Range> DestinationsOf(const StepRef& ref) const {
    const Step& step = order_.At(ref);
    if (step.kind == StepKind::kSend) return {};
    std::vector<Range> destinations = RangesOf(ref.node, step.destination);
    const std::vector<Range> sources = SourcesOf(ref);
    if (step.kind == StepKind::kLocal && sources.size() == 1 &&
        step.source.local_rank != Place::kEveryLocalRank) {
      // A copy onto itself is ignored.
      std::erase_if(destinations, [&](const Range& range) {
        return range.buffer == sources[0].buffer && range.offset == sources[0].offset;
      });
    }
    return destinations;
  }

  template <typename Visitor>
  absl::Status ForEachStep(Visitor visitor) const {
    for (std::size_t node = 0; node < plans_.size(); ++node) {
      for (std::size_t i = 0; i < plans_[node].steps.size(); ++i) {
        const absl::Status status =
            visitor(StepRef{static_cast<std::uint16_t>(node), static_cast<std::uint32_t>(i)});
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckPlace(const StepRef& ref, const Place& place) const {
    const auto locals = static_cast<std::int32_t>(layout_.ranks_on(ref.node).size());
    if (place.local_rank < Place::kEveryLocalRank || place.local_rank >= locals) {
      return absl::InternalError(
          absl::StrCat(order_.Describe(ref), ": there is no local rank ", place.local_rank));
    }
    if (place.local_rank == Place::kEveryLocalRank && order_.At(ref).kind != StepKind::kLocal) {
      return absl::InternalError(absl::StrCat(order_.Describe(ref), ": names several ranks"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckPlaces() {
    return ForEachStep([&](const StepRef& ref) -> absl::Status {
      const Step& step = order_.At(ref);
      if (step.bytes == 0) return absl::OkStatus();
      if (step.bytes % operation_.element_bytes() != 0 || step.source_count < 1 ||
          step.source_count > kLocalRanksMax ||
          (step.source_count > 1 && step.source.local_rank == Place::kEveryLocalRank)) {
        return absl::InternalError(absl::StrCat(order_.Describe(ref), ": malformed"));
      }
      for (const Place& place : {step.source, step.destination}) {
        if (absl::Status status = CheckPlace(ref, place); !status.ok()) return status;
      }
      std::vector<Range> ranges = SourcesOf(ref);
      for (const Range& range : DestinationsOf(ref)) ranges.push_back(range);
      for (const Range& range : ranges) {
        const std::uint64_t available = buffers_[range.buffer].bytes();
        if (range.offset <= available && step.bytes <= available - range.offset) continue;
        return absl::InternalError(absl::StrCat(order_.Describe(ref), ": bytes ", range.offset,
                                                " to ", range.offset + step.bytes, " of the ",
                                                NameOf(range.buffer), ", which has ", available));
      }
      return absl::OkStatus();
    });
  }

  absl::Status CheckOrder() {
    if (absl::Status status = order_.Build(); !status.ok()) return status;
    if (absl::Status status = order_.CheckCredit(); !status.ok()) return status;
    if (!IsEmpty(operation_.signature.kind)) return absl::OkStatus();
    return order_.CheckBarrier();
  }

  absl::Status CheckRaces() {
    std::vector<Access> accesses;
    const absl::Status within = ForEachStep([&](const StepRef& ref) -> absl::Status {
      const std::uint64_t bytes = order_.At(ref).bytes;
      if (bytes == 0) return absl::OkStatus();
      const std::vector<Range> destinations = DestinationsOf(ref);
      for (const Range& range : SourcesOf(ref)) {
        accesses.push_back({range.buffer, range.offset, range.offset + bytes, false, ref});
        for (const Range& written : destinations) {
          // In place is allowed, element by element; any other overlap is not.
          if (written.buffer != range.buffer || written.offset == range.offset ||
              written.offset >= range.offset + bytes || range.offset >= written.offset + bytes) {
            continue;
          }
          return absl::InternalError(absl::StrCat(
              order_.Describe(ref), ": writes over what it reads in the ", NameOf(range.buffer)));
        }
      }
      for (const Range& range : destinations) {
        accesses.push_back({range.buffer, range.offset, range.offset + bytes, true, ref});
      }
      return absl::OkStatus();
    });
    if (!within.ok()) return within;
    std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
      return std::pair(a.buffer, a.begin) < std::pair(b.buffer, b.begin);
    });
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      for (std::size_t k = i + 1; k < accesses.size(); ++k) {
        const Access& a = accesses[i];
        const Access& b = accesses[k];
        if (b.buffer != a.buffer || b.begin >= a.end) break;
        if (absl::Status status = CheckPair(a, b); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckPair(const Access& a, const Access& b) const {
    const bool same = a.step.node == b.step.node && a.step.index == b.step.index;
    if (same || (!a.writes && !b.writes)) return absl::OkStatus();
    if (order_.Ordered(a.step, b.step) || order_.Ordered(b.step, a.step)) return absl::OkStatus();
    const std::uint64_t begin = std::max(a.begin, b.begin);
    const std::uint64_t end = std::min(a.end, b.end);
    if (ChunksOrdered(a, b, begin, end)) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("race: ", order_.Describe(a.step), a.writes ? " writes, " : " reads, ",
                     order_.Describe(b.step), b.writes ? " writes" : " reads", " bytes ", begin,
                     " to ", end, " of the ", NameOf(a.buffer), " in any order"));
  }

  // Returns whether, of all chunks in [begin, end), one ends before the other begins.
  bool ChunksOrdered(const Access& a, const Access& b, std::uint64_t begin,
                     std::uint64_t end) const {
    using Event = StepOrder::Event;
    for (std::uint64_t chunk_a = (begin - a.begin) / kChunkBytes;
         chunk_a <= (end - 1 - a.begin) / kChunkBytes; ++chunk_a) {
      const std::uint64_t from = std::max(a.begin + chunk_a * kChunkBytes, begin);
      const std::uint64_t to = std::min(a.begin + (chunk_a + 1) * kChunkBytes, end);
      for (std::uint64_t chunk_b = (from - b.begin) / kChunkBytes;
           chunk_b <= (to - 1 - b.begin) / kChunkBytes; ++chunk_b) {
        if (!order_.Precedes(a.step, chunk_a, Event::kDone, b.step, chunk_b, Event::kTouches) &&
            !order_.Precedes(b.step, chunk_b, Event::kDone, a.step, chunk_a, Event::kTouches)) {
          return false;
        }
      }
    }
    return true;
  }

  absl::StatusOr<Pieces> ReadSources(const StepRef& ref) const {
    std::vector<Pieces> sources;
    for (const Range& range : SourcesOf(ref)) {
      absl::StatusOr<Pieces> read = buffers_[range.buffer].Read(range.offset, order_.At(ref).bytes);
      if (!read.ok()) {
        return absl::InternalError(
            absl::StrCat(read.status().message(), " of the ", NameOf(range.buffer)));
      }
      sources.push_back(*std::move(read));
    }
    const StepKind kind = order_.At(ref).kind;
    if (kind == StepKind::kReceive || kind == StepKind::kReduceReceived) {
      const StepRef send = order_.PartnerOf(ref);
      sources.push_back(sent_[send.node][send.index]);
      if (order_.At(ref).received_first) std::swap(sources.front(), sources.back());
    }
    return CombinePieces(expressions_, sources);
  }

  absl::Status CarryOutStep(const StepRef& ref) {
    const Step& step = order_.At(ref);
    absl::StatusOr<Pieces> value = ReadSources(ref);
    if (value.ok() && step.finishes) value = FinishPieces(expressions_, *value);
    if (!value.ok()) {
      return absl::InternalError(absl::StrCat(order_.Describe(ref), " ", value.status().message()));
    }
    if (step.kind == StepKind::kSend) {
      sent_[ref.node][ref.index] = *std::move(value);
      return absl::OkStatus();
    }
    for (const Range& range : DestinationsOf(ref)) {
      buffers_[range.buffer].Write(range.offset, *value);
    }
    return absl::OkStatus();
  }

  absl::Status CarryOut() {
    for (const Plan& plan : plans_) sent_.emplace_back(plan.steps.size());
    for (const StepRef& ref : order_.sequence()) {
      if (order_.At(ref).bytes == 0) continue;
      if (absl::Status status = CarryOutStep(ref); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() {
    for (std::uint32_t rank = 0; rank < operation_.size(); ++rank) {
      const std::uint64_t bytes = OutputBytes(rank);
      const SymbolicBuffer& buffer = buffers_[operation_.size() + rank];
      absl::StatusOr<Pieces> output = buffer.Read(0, bytes);
      if (!output.ok()) {
        return absl::InternalError(
            absl::StrCat("rank ", rank, ", result: whoever takes it ", output.status().message()));
      }
      absl::Status status = CheckOutput(operation_, expressions_, rank, *output);
      if (!status.ok()) return status;
      if (operation_.signature.kind != OperationKind::kAllReduce) continue;
      status = CheckSameAsFirst(rank, *output);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Equal expressions: combined from the same parts in the same order, so equal bits.
  absl::Status CheckSameAsFirst(std::uint32_t rank, const Pieces& output) const {
    const Pieces first = *buffers_[operation_.size()].Read(0, OutputBytes(0));
    const bool same = std::equal(
        first.begin(), first.end(), output.begin(), output.end(),
        [](const Piece& a, const Piece& b) { return a.bytes == b.bytes && a.value == b.value; });
    if (same) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("rank ", rank, ": result combined in a different order from that of rank 0"));
  }

  absl::Status CheckLinks() {
    report_.nodes = layout_.node_count();
    report_.between_nodes = plans_[0].between_nodes;
    report_.link_bytes.assign(plans_.size() * plans_.size(), 0);
    for (std::size_t node = 0; node < plans_.size(); ++node) {
      const Plan& plan = plans_[node];
      if (plan.between_nodes != report_.between_nodes) {
        return absl::InternalError(absl::StrCat("node ", node, " has chosen ",
                                                PlanKindName(plan.between_nodes), ", node 0 ",
                                                PlanKindName(report_.between_nodes)));
      }
      report_.steps += plan.steps.size();
      report_.scratch_bytes_max = std::max(report_.scratch_bytes_max, plan.scratch_bytes);
      for (const Step& step : plan.steps) {
        if (step.kind != StepKind::kSend) continue;
        ++report_.messages;
        report_.link_bytes[node * plans_.size() + step.node] += step.bytes;
      }
    }
    for (int from = 0; from < layout_.node_count(); ++from) {
      for (int to = 0; to < layout_.node_count(); ++to) {
        if (from == to) continue;
        const std::uint64_t sent =
            report_.link_bytes[static_cast<std::size_t>(from) * plans_.size() +
                               static_cast<std::size_t>(to)];
        const std::uint64_t optimal =
            OptimalBytes(operation_, layout_, report_.between_nodes, from, to);
        if (sent == optimal) continue;
        return absl::InternalError(absl::StrCat("link from node ", from, " to node ", to,
                                                " carries ", sent, " bytes, optimum ", optimal));
      }
    }
    return absl::OkStatus();
  }

  const WholeOperation& operation_;
  std::span<const Plan> plans_;
  GroupLayout layout_;
  StepOrder order_;
  mutable Expressions expressions_;
  std::vector<SymbolicBuffer> buffers_;
  std::vector<bool> aliased_;              // By rank: input and output are one.
  std::vector<std::vector<Pieces>> sent_;  // By node and step.
  PlanReport report_;
};

}  // namespace

std::vector<Plan> MakePlans(const WholeOperation& operation) {
  const std::uint16_t nodes = operation.LayoutAt(0).node_count();
  std::vector<Plan> plans(nodes);
  for (std::uint16_t node = 0; node < nodes; ++node) {
    plans[node] = MakePlanOf(operation, node);
  }
  return plans;
}

absl::StatusOr<PlanReport> VerifyPlans(const WholeOperation& operation,
                                       std::span<const Plan> plans) {
  return Verifier(operation, plans).Verify();
}

}  // namespace mlxcomm::collective
