// Bugs that can be switched on, to show that the simulator would find them. No
// configuration reaches the switch; only a test sets FabricOptions::planted_bug.
//
// Plain values.
#pragma once

#include <cstdint>

namespace mlxcomm::fabric {

enum class PlantedBug : std::uint8_t {
  kNone,
  kDropAcknowledgement,  // None goes out by itself, only with other frames.
  kKeepDuplicates,       // A frame that was sent again goes up once more.
};

}  // namespace mlxcomm::fabric
