// Where session and circuit numbers come from: the system's random numbers, or, in the
// simulator, its seed.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <functional>

namespace mlxcomm::fabric {

// Never gives 0.
using RandomSource = std::function<std::uint64_t()>;

// Of the system; never 0.
std::uint64_t RandomNumber();

}  // namespace mlxcomm::fabric
