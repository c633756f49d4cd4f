#include "tests/sim/program.h"

#include <algorithm>
#include <array>

namespace mlxcomm::sim {
namespace {

constexpr std::array kTypes = {DataType::kFloat32,  DataType::kFloat16, DataType::kBfloat16,
                               DataType::kInt32,    DataType::kBool,    DataType::kInt8,
                               DataType::kInt64,    DataType::kUint16,  DataType::kFloat64,
                               DataType::kComplex64};
constexpr std::array kOperators = {ReduceOperator::kSum, ReduceOperator::kSum,
                                   ReduceOperator::kMax, ReduceOperator::kMin,
                                   ReduceOperator::kOr,  ReduceOperator::kMean};
// Half of the programs' calls are all_reduce.
constexpr std::array kKinds = {
    OperationKind::kAllReduce,     OperationKind::kAllReduce, OperationKind::kAllReduce,
    OperationKind::kAllReduce,     OperationKind::kAllReduce, OperationKind::kAllGather,
    OperationKind::kReduceScatter, OperationKind::kBroadcast, OperationKind::kReduce,
    OperationKind::kAllToAll,      OperationKind::kGather,    OperationKind::kScatter,
    OperationKind::kAllGatherV,    OperationKind::kAllToAllV, OperationKind::kBarrier};
static_assert(
    [] {
      bool all = true;
      kOperations.ForEach([&](const OperationRow& row) {
        all = all && (IsPointToPoint(row.value) ||
                      std::find(kKinds.begin(), kKinds.end(), row.value) != kKinds.end());
      });
      return all;
    }(),
    "a kind that no program draws is not simulated");
constexpr std::array kPlans = {
    PlanKind::kAutomatic, PlanKind::kAutomatic, PlanKind::kAutomatic,       PlanKind::kRing,
    PlanKind::kExchange,  PlanKind::kTree,      PlanKind::kHalvingDoubling, PlanKind::kAutomatic};

// Small sizes as often as large ones, and every border of eager frames and chunks.
std::uint64_t DrawBytes(const ProgramOptions& options, Random& random) {
  constexpr std::array<std::uint64_t, 6> kBorders = {
      0, 1, 16 * 1024, 16 * 1024 + 8, 256 * 1024, 256 * 1024 + 8};
  if (random.Chance(250)) return std::min(random.Of(kBorders), options.bytes_max);
  return random.BetweenPowers(1, options.bytes_max);
}

void DrawTables(oracle::Operation& o, Random& random) {
  const std::uint64_t most = 2 * o.count + 1;
  if (CountsPerRank(o.kind) == 1) {
    std::vector<std::uint64_t> counts;
    for (std::uint32_t r = 0; r < o.size; ++r) counts.push_back(random.Below(most));
    o.tables.assign(o.size, counts);
  } else {
    o.tables.assign(o.size, std::vector<std::uint64_t>(2 * std::size_t{o.size}));
    for (std::uint32_t from = 0; from < o.size; ++from) {
      for (std::uint32_t to = 0; to < o.size; ++to) {
        o.tables[from][to] = o.tables[to][o.size + from] = random.Below(most);
      }
    }
  }
  o.count = 0;
}

Step DrawCollective(const ProgramOptions& options, std::uint32_t group, std::uint32_t size,
                    Random& random) {
  Step step;
  step.group = group;
  oracle::Operation& o = step.operation;
  o.kind = random.Of(kKinds);
  o.size = size;
  o.salt = random.Next();
  step.plan = random.Of(kPlans);
  if (IsEmpty(o.kind)) return step;
  o.type = random.Of(kTypes);
  // Its sums are exact only up to 256, and contributions go up to 3.
  if (o.type == DataType::kBfloat16 && size > 64) o.type = DataType::kFloat32;
  if (Reduces(o.kind)) {
    do {
      o.op = random.Of(kOperators);
    } while (!HasMeaning(o.type, o.op));
  }
  if (HasRoot(o.kind)) o.root = random.Below32(size);
  std::uint64_t bytes = DrawBytes(options, random);
  if (HasBlocks(o.kind) || HasCounts(o.kind)) bytes /= size;  // For each rank.
  o.count = bytes / DataTypeBytes(o.type);
  if (HasCounts(o.kind)) DrawTables(o, random);
  return step;
}

Step DrawMessage(const ProgramOptions& options, std::uint32_t group, std::uint32_t size,
                 Random& random) {
  Step step;
  step.kind = Step::Kind::kMessage;
  step.group = group;
  step.source = random.Below32(size);
  step.destination = (step.source + 1 + random.Below32(size - 1)) % size;
  step.tag = random.Below32(3);
  step.operation.kind = OperationKind::kSend;
  step.operation.size = size;
  step.operation.type = random.Of(kTypes);
  step.operation.salt = random.Next();
  step.operation.count = DrawBytes(options, random) / DataTypeBytes(step.operation.type);
  return step;
}

// The parent's ranks, distributed among a few groups in any order.
void DrawSplit(Program& program, std::uint32_t parent, std::uint64_t number, Random& random) {
  std::vector<std::uint32_t> ranks(program.groups[parent].members.size());
  for (std::uint32_t r = 0; r < ranks.size(); ++r) ranks[r] = r;
  if (random.Chance(300)) random.Shuffle(ranks);
  const std::uint64_t parts = 1 + random.Below(std::min<std::size_t>(4, ranks.size()));
  std::vector<std::vector<std::uint32_t>> dealt(parts);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    dealt[i < parts ? i : random.Below(parts)].push_back(ranks[i]);
  }
  for (std::vector<std::uint32_t>& part : dealt) {
    GroupPlan group;
    group.parent = parent;
    group.number = number;
    for (const std::uint32_t rank : part) {
      group.members.push_back(program.groups[parent].members[rank]);
    }
    group.parent_ranks = std::move(part);
    Step step;
    step.kind = Step::Kind::kSplit;
    step.group = static_cast<std::uint32_t>(program.groups.size());
    program.groups.push_back(std::move(group));
    program.steps.push_back(std::move(step));
  }
  // Like the client library: no rank uses a part before all its ranks have it.
  Step fence;
  fence.group = parent;
  fence.fence = number;
  fence.operation.size = static_cast<std::uint32_t>(program.groups[parent].members.size());
  program.steps.push_back(std::move(fence));
}

}  // namespace

Step StepAfterShrink(std::uint64_t group, std::uint32_t number, std::uint32_t size) {
  Random random(Mix(group) + number);
  Step step;
  step.operation.kind = random.Chance(700) ? OperationKind::kAllReduce : OperationKind::kAllGather;
  step.operation.op = step.operation.kind == OperationKind::kAllReduce ? ReduceOperator::kSum
                                                                       : ReduceOperator::kNone;
  step.operation.size = size;
  step.operation.count = random.BetweenPowers(1, 20'000);
  step.operation.salt = random.Next();
  return step;
}

Program MakeProgram(const ProgramOptions& options, Random random) {
  Program program;
  GroupPlan& world = program.groups.emplace_back();
  for (std::uint32_t r = 0; r < options.ranks; ++r) {
    world.parent_ranks.push_back(r);
    world.members.push_back(r);
  }
  std::vector<bool> released(1, false);
  for (std::uint32_t i = 0; i < options.steps; ++i) {
    released.resize(program.groups.size(), false);
    std::uint32_t group =
        random.Chance(600) ? 0 : random.Below32(static_cast<std::uint32_t>(program.groups.size()));
    if (released[group]) group = 0;
    const auto size = static_cast<std::uint32_t>(program.groups[group].members.size());
    if (options.splits && program.groups.size() < 12 && random.Chance(60)) {
      DrawSplit(program, group, i + 1, random);
    } else if (group != 0 && random.Chance(50)) {
      Step step;
      step.kind = Step::Kind::kRelease;
      step.group = group;
      program.steps.push_back(std::move(step));
      released[group] = true;
    } else if (size > 1 && random.Chance(250)) {
      program.steps.push_back(DrawMessage(options, group, size, random));
    } else {
      program.steps.push_back(DrawCollective(options, group, size, random));
    }
  }
  return program;
}

}  // namespace mlxcomm::sim
