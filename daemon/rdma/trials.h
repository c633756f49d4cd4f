// Tests the assumptions about a device's driver (limits.h) one by one. Each trial runs in its own
// process, which may hang or crash; its caller sets a deadline (mlxcommctl bugreport --rdma).
//
//   mlxcommd --try-rdma CONFIG limits            RdmaTrials (ctl.proto) with the assumptions, as
//                                                text
//   mlxcommd --try-rdma CONFIG devices           the same with each DEVICE, and the NAMEs of its
//                                                trials
//   mlxcommd --try-rdma CONFIG NAME DEVICE       "worked" or "refused", and the details
//
// Trials take queue pairs and regions for a moment, which other processes may need. Nothing is sent
// to another machine. Thread: main, of a process that does nothing else. Memory: some megabytes.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::v1 {
class RdmaTrials;
}

namespace mlxcomm::rdma {

// The argument that selects a trial.
inline constexpr char kTrialArgument[] = "--try-rdma";

struct TrialSubject {
  std::string library;  // Set as in RdmaOptions.
  Limits limits;
  std::string device;
};

struct Trial {
  const char* name;
  const char* tries;  // Only displayed.
  bool needs_port;    // The port must be active.
  // Returns details for display; an error: it was refused.
  absl::StatusOr<std::string> (*run)(const TrialSubject& subject);
};
std::span<const Trial> Trials();

// What `devices` and `limits` print.
std::string TextOf(const v1::RdmaTrials& listed);

// Returns the output of `devices` or a trial; INVALID_ARGUMENT: no such name.
absl::StatusOr<std::string> RunTrial(const std::string& name, const TrialSubject& subject);

// The trials that call verbs directly (verbs_trials.cc); UNIMPLEMENTED in builds without verbs.
absl::StatusOr<std::string> DescribeDevice(const TrialSubject& subject);
absl::StatusOr<std::string> TryDepth(const TrialSubject& subject);

}  // namespace mlxcomm::rdma
