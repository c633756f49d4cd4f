// Time, memory, cores, names and paths of this machine and this process.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace mlxcomm::platform {

std::uint64_t MonotonicNow();  // Nanoseconds; unrelated to the date.
std::uint64_t PhysicalMemoryBytes();
std::uint64_t OwnMemoryBytes();  // Resident; on Linux without clients' arenas.
// Returns freed memory from the C library to the system. May take milliseconds.
void ReleaseFreeMemory();
// Limits the number of heaps; call before starting threads. Otherwise memory that stays in use on
// the heaps of gRPC's short-lived threads would pin the pages around it.
void ShareHeaps();
// The caller's core; kAnyCore if unknown.
inline constexpr std::uint32_t kAnyCore = 0xffffffff;
std::uint32_t CurrentCore();
// Moves the caller to another core if possible; afterwards it may run on any.
void LeaveCore(std::uint32_t core);
std::uint64_t LastLevelCacheBytes();  // 8 MiB if unknown.
std::string HostName();
std::string MacosVersion();   // "26.2.1"; empty on other systems.
std::string OwnExecutable();  // Its path; empty if unknown.
// True if the process is stopped by SIGSTOP, Ctrl-Z, or reading from its terminal in the
// background. A process in a debugger does not count. False if unknown.
bool IsStopped(pid_t process);

// Defaults for config.proto: the system service's for root, otherwise the user's own.
std::string DefaultSocketPath();
std::string DefaultStateDirectory();

}  // namespace mlxcomm::platform
