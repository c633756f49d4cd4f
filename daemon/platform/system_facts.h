// What the system says about itself and grants this process, for diagnostics.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::platform {

std::string SystemName();      // "Linux 6.1.0 x86_64"; empty: not known.
std::uint64_t OpenFilesMax();  // This process's limit; 0: not known.
std::uint64_t OpenFiles();     // This process's; 0: not known.
// Raises the limit to what the system allows without privileges, at most 65536: a program that a shell
// starts has 256 on macOS, 1024 on Linux, and a client costs eight of the daemon's (arena, queue, doorbell,
// the watch over its process, four sockets of its control connection). A higher limit stays. Call it before
// there are threads; children inherit it.
void RaiseOpenFilesMax();
// The limit of this process's address space (RLIMIT_AS); 0: none, or not known.
std::uint64_t AddressSpaceMax();
// The limits of this process's memory as a shell names them, "ulimit -v: 4096 KiB"; empty: there are none.
std::string MemoryLimits();
// Memory that this process may lock, as RDMA does with registered memory; 0: not limited, as for
// root on Linux and all users on macOS, or not known.
std::uint64_t LockedBytesMax();
std::uint32_t InterfaceMtu(const std::string& name);  // 0: not known.
std::uint64_t UnixNow();                              // Nanoseconds since 1970.

}  // namespace mlxcomm::platform
