// What the system says of itself and grants this process, for those who look for trouble.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::platform {

std::string SystemName();      // "Linux 6.1.0 x86_64"; empty: not known.
std::uint64_t OpenFilesMax();  // Of this process; 0: not known.
std::uint64_t OpenFiles();     // That it has; 0: not known.
// As many as the system allows it without asking anybody, and no more than 65536: a program that a
// shell starts has 256 on macOS, 1024 on Linux, and a client costs five of the daemon's. What it
// already has more is left. Before threads; children inherit it.
void RaiseOpenFilesMax();
// Memory that this process may lock, as RDMA does with what it registers; 0: not limited, as for
// root on Linux and everybody on macOS, or not known.
std::uint64_t LockedBytesMax();
std::uint32_t InterfaceMtu(const std::string& name);  // 0: not known.
std::uint64_t UnixNow();                              // Nanoseconds since 1970.

}  // namespace mlxcomm::platform
