// The parts of a status, and how they are merged: each node sends its own part, and the node that
// was asked returns them in the order of arrival. Merging and sorting them, and searching them for
// a ring (discovery/topology.h), takes a long time, so it must not run on the thread that moves
// payload.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/node/answer.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/job_id.h"
#include "proto/types/node_id.h"

namespace mlxcomm::node {

struct StatusParts {
  // This node's: first its own part, then every other node that can be reached, by name only.
  v1::StatusReply own;
  std::vector<std::pair<NodeId, v1::StatusAnswer>> answers;  // Kept in the order of arrival.

  struct Merged {
    v1::StatusReply status;  // Includes the shape and the ring.
    v1::TopologyReply topology;
  };
  // Merges at the first call. Thread: any, but one at a time.
  const Merged& merged() const;

 private:
  mutable std::optional<Merged> merged_;
};
// Shared, so that nothing is copied on its way to another thread.
using StatusAnswer = Answer<std::shared_ptr<const StatusParts>>;

// All jobs, with every node's part of them; nodes, jobs, groups and ranks in order. Does not
// compute the topology.
v1::StatusReply MergeStatus(const StatusParts& parts);

// The job of that name in the reply, made if it is not there. Ranks may wait for a job to form
// while the last job of that name still runs or has failed: the two are unrelated.
v1::JobStatus& JobIn(v1::StatusReply& reply, const JobId& id, bool forms = false);

}  // namespace mlxcomm::node
