// How long an all_reduce takes on many nodes, by the daemons' own state machines in
// virtual time. Payload has a length only: nothing is copied or combined, so a run of 512
// nodes needs no more memory than their state.
//
//   ring   a cable joins node i to i - 1 and another to i + 1; both directions at once
//   tree   leaf switches of kLeafHosts hosts, each with one uplink to a spine; connections
//          between the pairs that the plan uses
//
// Owner: scale_main. Thread: one. Memory: the daemons'.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::sim {

struct ScaleOptions {
  bool ring = true;
  std::uint32_t nodes = 4;
  std::uint64_t bytes = 1 << 20;
  std::uint64_t bytes_per_second = 10'000'000'000;  // Of a cable, or a host's port.
  std::uint64_t latency_ns = 5'000;                 // Of a cable.
  std::uint64_t uplink_hosts = 4;                   // An uplink carries as much as this many ports.
  std::uint64_t event_ns = 500;                     // The loop's time for each event.
  std::uint32_t repeats = 3;                        // The last counts.
  bool in_place = false;                            // The output is the input's memory.
};

struct ScaleResult {
  std::string plan;
  std::uint64_t time_ns = 0;
  // No algorithm can be faster: every node must send and receive this much, and the farthest node's data must
  // arrive here.
  std::uint64_t optimum_ns = 0;
  std::uint64_t events = 0;
  std::string wrong;  // Empty: fine.
};

ScaleResult RunScale(const ScaleOptions& options);

}  // namespace mlxcomm::sim
