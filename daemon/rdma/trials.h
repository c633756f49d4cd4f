// What is assumed about a device's driver (limits.h), tried one by one: for people with hardware
// on which none of it has run, and for those who are to help. Each trial is a process of its own,
// which may hang or crash as drivers do; its caller has a deadline for it (mlxcommctl bugreport
// --rdma).
//
//   mlxcommd --try-rdma CONFIG trials            which there are: NAME, and what it tries
//   mlxcommd --try-rdma CONFIG limits            what is assumed about devices, and who said it
//   mlxcommd --try-rdma CONFIG devices           DEVICE, and whether its port is active
//   mlxcommd --try-rdma CONFIG gids              DEVICE, and a GID of its port; in the port's order
//   mlxcommd --try-rdma CONFIG NAME DEVICE       "worked" or "refused", and what came of it
//
// They take queue pairs and regions of the device for a moment, which others may miss; no trial
// sends anything to another machine.
//
// Thread: main, of a process that does nothing else. Memory: some megabytes.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma {

// The argument that makes a program try something.
inline constexpr char kTrialArgument[] = "--try-rdma";

struct TrialSubject {
  std::string library;  // As in RdmaOptions.
  Limits limits;
  std::string device;
};

struct Trial {
  const char* name;
  const char* tries;  // For people.
  bool needs_port;    // Which has to be active.
  // What came of it, for people; an error: it was refused, and how.
  absl::StatusOr<std::string> (*run)(const TrialSubject& subject);
};
std::span<const Trial> Trials();

// What `trials`, `devices`, `gids` and a trial's name write; INVALID_ARGUMENT: there is none of that name.
absl::StatusOr<std::string> RunTrial(const std::string& name, const TrialSubject& subject);

// Those that ask verbs themselves (verbs_trials.cc); UNIMPLEMENTED where there are none.
absl::StatusOr<std::string> DescribeDevice(const TrialSubject& subject);
absl::StatusOr<std::string> TryDepth(const TrialSubject& subject);
absl::StatusOr<std::string> TryLargeRegion(const TrialSubject& subject);
absl::StatusOr<std::string> TrySharedRegion(const TrialSubject& subject);
absl::StatusOr<std::string> TryRegionOverBoundary(const TrialSubject& subject);
absl::StatusOr<std::string> CountRegions(const TrialSubject& subject);

}  // namespace mlxcomm::rdma
