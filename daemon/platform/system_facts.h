// Limits and facts of the system and this process, for diagnostics.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::platform {

std::string SystemName();      // "Linux 6.1.0 x86_64"; empty if unknown.
std::uint64_t OpenFilesMax();  // This process's limit; 0 if unknown.
std::uint64_t OpenFiles();     // Counts this process's; 0 if unknown.
// Raises the soft limit as far as allowed, at most to 65536. Call before starting threads.
void RaiseOpenFilesMax();
// The limit of this process's address space (RLIMIT_AS); 0: unlimited or unknown.
std::uint64_t AddressSpaceMax();
// The bytes that this process may lock in memory; 0: unlimited or unknown.
std::uint64_t LockedBytesMax();
std::uint32_t InterfaceMtu(const std::string& name);  // 0 if unknown.
std::uint64_t UnixNow();                              // Nanoseconds since 1970.

}  // namespace mlxcomm::platform
