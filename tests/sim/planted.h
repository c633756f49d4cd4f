// A bug that is planted on purpose, so that the checks must find it: CMakeLists.txt puts this
// header in front of daemon sources that have one.
//
// Owner: the process. Thread: the simulator's.
#pragma once

#include <cstdint>

namespace mlxcomm::sim {

enum class Planted : std::uint8_t {
  kNone,
  kDropAcknowledgement,  // Acknowledgements go out only with other frames.
  kKeepDuplicates,       // A retransmitted frame is delivered twice.
  kForgetCredit,         // Every eighth batch of credit is never returned.
};

// From the next seed on.
void Plant(Planted bug);
// Returns whether the bug happens now.
bool Happens(Planted bug);

}  // namespace mlxcomm::sim

#define MLXCOMM_PLANTED_BUG(bug) ::mlxcomm::sim::Happens(::mlxcomm::sim::Planted::bug)
