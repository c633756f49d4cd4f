// What this machine and process have: time, memory, cores, name, places for files.
//
// Owner: none. Thread: any. Memory: none.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::platform {

std::uint64_t MonotonicNow();           // Nanoseconds; unrelated to the date.
std::uint64_t PhysicalMemoryBytes();
std::uint64_t OwnMemoryBytes();         // Resident, without shared mappings.
std::uint32_t CoreCount();
std::string HostName();                 // Without its domain.

// Defaults of config.proto: for root a system service's, else the user's own.
std::string DefaultSocketPath();
std::string DefaultStateDirectory();

}  // namespace mlxcomm::platform
