// The steps of first light, in their order: each has a deadline, and all together have the budget.
//
//   system ▶ platform ▶ gpu ▶ loopback ▶ rdma     this machine
//   ▶ neighbour ▶ cable ▶ pull ▶ sleep ▶ power    the daemon and its cables' other ends; hands
//
// A step notes what it has seen; where it cannot be done it returns the reason, and its assumptions
// are "not tried" for that reason. Everything that another program can do is left to it: mlxcommctl
// bench and launch, mlxcommd's trials, the system's own programs.
//
// Owner: the verb. Thread: main. Memory: the notes.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/ctl/firstlight/notes.h"
#include "client/ctl/firstlight/prompts.h"
#include "client/ctl/firstlight/pseudonyms.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

inline constexpr std::uint64_t kSecondNs = 1'000'000'000;
std::uint64_t UnixNowNs();

struct Lit {
  std::string own_path;  // mlxcommctl's.
  std::string socket_path;
  std::string config_file;
  std::uint64_t large_bytes = std::uint64_t{1} << 30;
  std::uint64_t begin_unix_ns = 0;
  std::chrono::steady_clock::time_point deadline;  // Of the current step.
  Notes& notes;
  Prompts& prompts;
  Pseudonyms& pseudonyms;

  std::uint64_t left_ns() const;  // At least a millisecond.
  std::uint64_t SinceBeginUs(std::uint64_t unix_ns) const {
    return unix_ns > begin_unix_ns ? (unix_ns - begin_unix_ns) / 1000 : 0;
  }
  std::uint64_t NowUs() const;
};

struct Step {
  const char* name;
  const char* what;  // For people, during the step.
  int seconds_max;
  std::string (*run)(Lit& lit);  // Empty: done; else why not.
};
std::span<const Step> Steps();

// Each in steps_*.cc.
std::string StepSystem(Lit& lit);
std::string StepPlatform(Lit& lit);
std::string StepGpu(Lit& lit);
std::string StepLoopback(Lit& lit);
std::string StepRdma(Lit& lit);
std::string StepNeighbour(Lit& lit);
std::string StepCable(Lit& lit);
std::string StepPull(Lit& lit);
std::string StepSleep(Lit& lit);
std::string StepPower(Lit& lit);

// What this node's daemon reports about the first link that is up and has a cable; or why there is
// none.
struct CableFound {
  std::string node;  // This one.
  std::string peer;
  std::uint64_t daemon_pid = 0;
  v1::LinkStatus link;
};
std::string FindCable(const Lit& lit, CableFound& found);
// The rails of the link that lie on a cable, by their names in events.
google::protobuf::RepeatedPtrField<v1::FirstLightRail> RailsOf(const v1::LinkStatus& link);

}  // namespace mlxcomm::ctl
