// How threads that wait share the cores with threads that work. A process chooses its policy once, at
// its start, and passes it down as a value; nobody else counts cores.
//
//   few cores    who waits stands in the way of who works: it gives its core away between two looks
//                and sleeps soon. The engine drives TCP rails itself, for a rail's thread would have
//                no core to run on beside it; workers leave the engine's core.
//   many cores   who waits has a core of its own: it keeps it and looks for longer. A rail that
//                carries much is driven by its own thread, beside the engine.
//
// The daemon takes the side that its configuration or --scheduling names, AUTO by the cores it may
// use. A side that was named is told to clients in the hello, so that it holds for the whole node.
// AUTO is for each process to decide: one that is bound to fewer cores than its daemon has few.
//
// Owner: none, a plain value. Thread: any. Memory: none.
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
  // A thread that waits for an operation, or for work: the engine, a worker, a client.
  SpinLimits waiting{2'000, 250'000, true};
  // The engine pauses between two looks, but keeps its core, while others do the last pieces of work.
  bool engine_awaits_workers = false;
  // Whatever a TCP rail carries; else its thread takes over what is large.
  bool engine_drives_all = true;
  // A worker that finds itself on the engine's core goes to another one.
  bool workers_avoid_engine = true;
  std::uint32_t workers = 1;  // The engine is one more.
  // How long a rail's thread looks for more before it sleeps; and while an operation of an RDMA rail is
  // in flight, for then something will come.
  std::uint64_t rail_spin_ns = 5'000;
  std::uint64_t rail_in_flight_spin_ns = 5'000;

  // A process that may use so many cores. A side that is asked for takes what a machine of that side has
  // at the nearest number.
  static SchedulingPolicy Choose(Scheduling asked, std::uint32_t cores);
};

}  // namespace mlxcomm::queue
