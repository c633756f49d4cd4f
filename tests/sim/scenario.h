// The contents of one seed: hosts, cables, jobs, and the faults with their times. Pure data; World
// carries it out.
//
// Owner: plain values. Thread: any. Memory: vectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/cable.h"
#include "tests/sim/client.h"
#include "tests/sim/connected_rail.h"
#include "tests/sim/daemon.h"
#include "tests/sim/program.h"

namespace mlxcomm::sim {

struct CablePlan {
  std::size_t a = 0;  // Hosts; side 0 and side 1.
  std::size_t b = 0;
  CableOptions options;
  bool a_dials = true;
  bool b_dials = false;
};

struct JobPlan {
  ProgramOptions program;
  std::vector<std::size_t> hosts;   // By rank.
  std::vector<Client::Fate> fates;  // By rank.
  ClientOptions client;
  bool waits_for_links = true;
  std::uint64_t starts_ns = 0;
};

struct Fault {
  enum class Kind : std::uint8_t {
    kPull,       // A cable, for the duration.
    kRate,       // A cable's rate changes, for the duration.
    kFlip,       // A cable flips bits, for the duration.
    kSwallow,    // A proxy on a cable swallows all frames, for the duration.
    kSmallOnly,  // A cable carries only small packets, for the duration.
    kStop,       // SIGSTOP to a daemon, SIGCONT after the duration.
    kKill,       // A daemon's process; started again after the duration (kNever: not).
    kPowerOff,   // A host, like kKill, but no other host is notified.
    kReplace,    // Like kKill, but it returns as another node.
  };
  Kind kind = Kind::kPull;
  std::uint64_t at_ns = 0;
  std::size_t target = 0;  // Cable or host.
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes_per_second = 0;
  std::uint32_t flipped_of_million = 0;  // Messages.
};

struct Scenario {
  std::uint64_t seed = 0;
  std::string description;
  DaemonOptions daemon;  // Everything except its identity.
  RailOptions rails;
  std::size_t hosts = 2;
  std::vector<CablePlan> cables;
  std::vector<JobPlan> jobs;
  std::vector<Fault> faults;            // In order of time.
  bool discovers = false;               // Hosts find each other; otherwise they dial the cables.
  std::uint64_t asks_every_ns_max = 0;  // Between two questions; 0 if none are asked.
  // For the ledger.
  std::uint64_t settles_ns = 3 * kSecond;
  std::uint64_t lost_after_ns = 3 * kSecond;
  std::uint64_t end_ns = 0;         // All jobs must be over by then.
  std::uint64_t runs_until_ns = 0;  // Runs at least until then, even if they are.
};

Scenario MakeScenario(std::uint64_t seed);

}  // namespace mlxcomm::sim
