// What this machine and process have: time, memory, cores, name, places for files.
//
// Owner: none. Thread: any. Memory: none.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::platform {

std::uint64_t MonotonicNow();           // Nanoseconds; unrelated to the date.
std::uint64_t PhysicalMemoryBytes();
std::uint64_t OwnMemoryBytes();         // Resident; on Linux without clients' arenas.
std::uint32_t CoreCount();              // Those this process may use; at least 1.
std::string HostName();                 // Without its domain.

// Defaults of config.proto: for root a system service's, else the user's own.
std::string DefaultSocketPath();
std::string DefaultStateDirectory();

}  // namespace mlxcomm::platform
