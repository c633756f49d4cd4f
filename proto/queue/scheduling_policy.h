// How threads that wait share the cores with threads that work. A process chooses its policy once,
// at its start, and passes it down as a value; no other part counts cores.
//
//   few cores    a waiter is in the way of a worker: it yields its core between two looks and
//                sleeps soon. The loop drives TCP rails itself, because a rail's thread would
//                have no core beside it; workers leave the loop's core.
//   many cores   a waiter has a core of its own: it keeps it and spins for longer. A rail that
//                carries much is driven by its own thread, beside the loop.
//
// The daemon takes the side that its configuration or --scheduling names; AUTO goes by the cores
// that it may use. The hello passes a named side on to clients, so that it holds for the whole
// node. With AUTO each process decides for itself: one that is bound to fewer cores than its daemon
// may take the other side.
#pragma once

#include <cstdint>

#include "proto/queue/adaptive_spin.h"

namespace mlxcomm::queue {

enum class Scheduling : std::uint8_t {
  kAuto = 0,
  kFewCores = 1,
  kManyCores = 2
};  // In DaemonHello.

struct SchedulingPolicy {
  // A thread that waits for an operation, or for work: the loop, a worker, a client.
  SpinLimits waiting{2'000, 250'000, true};
  // The loop pauses between two looks, but keeps its core, while others do the last pieces of work.
  bool loop_awaits_workers = false;
  // The loop carries all of a TCP rail's data; else the rail's thread takes over large data.
  bool loop_drives_all = true;
  // A worker that finds itself on the loop's core goes to another one.
  bool workers_avoid_loop = true;
  std::uint32_t workers = 1;  // The loop is one more.
  // How long a rail's thread spins before it sleeps; side rails spin for the second time while an operation
  // is in flight.
  std::uint64_t rail_spin_ns = 5'000;
  std::uint64_t rail_in_flight_spin_ns = 5'000;

  // For a process that may use `cores` cores. A side that is asked for gets the values of a machine
  // of that side with the nearest number of cores.
  static SchedulingPolicy Choose(Scheduling asked, std::uint32_t cores);
};

// How many cores this process may use, at least 1: a cpuset or taskset may leave fewer than the
// machine has.
std::uint32_t UsableCores();

}  // namespace mlxcomm::queue
