// What this machine and its processes have: time, memory, name, places for files.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace mlxcomm::platform {

std::uint64_t MonotonicNow();  // Nanoseconds; unrelated to the date.
std::uint64_t PhysicalMemoryBytes();
std::uint64_t OwnMemoryBytes();  // Resident; on Linux without clients' arenas.
// Gives freed memory that the C library keeps back to the system. It may take milliseconds.
void ReleaseFreeMemory();
// Before there are threads: few of them get a heap of their own. What stays in use on a thread's heap keeps
// the pages around it, and gRPC's threads come and go; the hot path allocates nothing.
void ShareHeaps();
// The caller's core; kAnyCore where the system does not say.
inline constexpr std::uint32_t kAnyCore = 0xffffffff;
std::uint32_t CurrentCore();
// Moves the caller to another core, if it may use one, and lets it continue on any.
void LeaveCore(std::uint32_t core);
std::uint64_t LastLevelCacheBytes();  // Of a core's; 8 MiB where the system does not say.
std::string HostName();
std::string MacosVersion();   // "26.2.1"; empty where this is no macOS.
std::string OwnExecutable();  // Its path; empty where the system does not say.
// Whether a process is stopped: by SIGSTOP, by Ctrl-Z, or because it reads from a terminal in the
// background. One that a debugger holds does not count: a person is looking at it. False also where
// the system does not say.
bool IsStopped(pid_t process);

// Defaults of config.proto: for root a system service's, else the user's own.
std::string DefaultSocketPath();
std::string DefaultStateDirectory();

}  // namespace mlxcomm::platform
