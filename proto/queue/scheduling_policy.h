// Decides how waiting threads share the cores with working threads. A process chooses its policy
// once, when it starts, and passes it down as a value; no other code counts cores.
//
//   few cores    Waiting threads need the workers' cores: they yield between polls and sleep soon.
//                The loop drives TCP rails itself, because no core is left for a rail's thread.
//                Workers leave the loop's core.
//   many cores   Waiting threads have their own cores: they spin for longer and do not yield. A
//                busy rail has its own thread.
//
// The configuration or --scheduling selects the policy for the daemon and, through the hello, for
// its clients. With AUTO each process decides by the cores it may use.
#pragma once

#include <cstdint>

#include "proto/queue/adaptive_spin.h"

namespace mlxcomm::queue {

enum class Scheduling : std::uint8_t {
  kAuto = 0,
  kFewCores = 1,
  kManyCores = 2
};  // Sent in DaemonHello.

struct SchedulingPolicy {
  // For threads that wait for an operation or for work: the loop, workers, clients.
  SpinLimits waiting{2'000, 250'000, true};
  std::uint32_t cores = 1;
  // If each rank of a group on this machine has a core, a rank that waits for the others polls for
  // this long while no other thread needs its core (core_watch.h).
  std::uint64_t keep_core_ns = 0;
  // The loop spins while workers do the last pieces of work, and keeps its core.
  bool loop_awaits_workers = false;
  // The loop moves all of a TCP rail's data; false: the rail's thread moves large data.
  bool loop_drives_all = true;
  // A worker on the loop's core moves to another one.
  bool workers_avoid_loop = true;
  std::uint32_t workers = 1;  // Excludes the loop.
  // A rail's thread spins this long before it sleeps, normally and while its device transfers data.
  std::uint64_t rail_spin_ns = 5'000;
  std::uint64_t rail_in_flight_spin_ns = 5'000;

  // Chooses for a process that may use that many cores, or for the nearest number that `asked` is
  // for.
  static SchedulingPolicy Choose(Scheduling asked, std::uint32_t usable_cores);
};

// The number of cores that this process may use, at least 1: a cpuset or taskset may limit it.
std::uint32_t UsableCores();

}  // namespace mlxcomm::queue
