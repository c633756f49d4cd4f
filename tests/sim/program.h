// A job's program, drawn from a seed: its groups and the steps that its ranks take. Every rank
// walks through the same list and takes the steps of the groups to which it belongs.
//
// Owner: Job. Thread: one. Memory: plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ground/expected_result.h"
#include "tests/sim/random.h"

namespace mlxcomm::sim {

struct GroupPlan {
  std::uint32_t parent = 0;                 // Index; the world's parent is itself.
  std::uint64_t number = 0;                 // The split's.
  std::vector<std::uint32_t> parent_ranks;  // By rank: its rank in the parent.
  std::vector<std::uint32_t> members;       // By rank: its rank in the world.
};

struct Step {
  enum class Kind : std::uint8_t { kCollective, kMessage, kSplit, kRelease };
  Kind kind = Kind::kCollective;
  std::uint32_t group = 0;      // Index. kSplit: the group that is made.
  oracle::Operation operation;  // Ranks are the group's.
  PlanKind plan = PlanKind::kAutomatic;
  // The fence of the split with that number; 0 if it is none. Ranks continue only when it is done,
  // and have the split's parts only if it succeeded.
  std::uint64_t fence = 0;
  std::uint32_t source = 0;  // kMessage
  std::uint32_t destination = 0;
  std::uint32_t tag = 0;
};

struct Program {
  std::vector<GroupPlan> groups;  // [0] is the world.
  std::vector<Step> steps;
};

struct ProgramOptions {
  std::uint32_t ranks = 2;
  std::uint32_t steps = 20;
  std::uint64_t bytes_max = 256 * 1024;  // For one rank's part.
  bool splits = true;
};

// The calls of the remaining ranks in the group to which a job has shrunk: the same on all.
Step StepAfterShrink(std::uint64_t group, std::uint32_t number, std::uint32_t size);

Program MakeProgram(const ProgramOptions& options, Random random);

}  // namespace mlxcomm::sim
