// Random numbers for sessions, circuits and connections. Thread: any.
#pragma once

#include <cstdint>

namespace mlxcomm::rail {

// Asks the system; never returns 0.
std::uint64_t RandomNumber();

}  // namespace mlxcomm::rail
