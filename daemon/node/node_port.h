// Gives a node what it needs of its machine: threads that compute, clocks, and facts for people.
// The loop implements it over a machine (loop/loop.h), the simulator over virtual time
// (tests/sim/daemon.h).
//
// Owner: the node's owner; outlives the node. Thread: the node's; called from inside the node's
// calls, and may not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/collective/action.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/node_id.h"

namespace mlxcomm::node {

class NodePort {
 public:
  virtual ~NodePort() = default;
  // True if another thread does the work of a kLocalWork, and Node::OnWorkDone(cookie) follows;
  // false if the node does it at once.
  virtual bool SubmitWork(const collective::Action& action) = 0;
  // A frame or a message that no well-behaved daemon sends.
  virtual void OnViolation(const NodeId& node, const std::string& what) = 0;

  // Writes facts about the machine and the process, and the interfaces used for discovery. Returns
  // the jobs' users in the order of status.users, whose texts are for people; empty: a user without
  // a name.
  virtual std::vector<std::string> Describe(v1::NodeStatus& status) const = 0;
  // Writes the links, and the addresses that are being dialed.
  virtual void DescribeLinks(v1::NodeStatus& status) const = 0;
  // Examines interfaces and limits on another thread, for doctor; Node::OnSystemChecked follows.
  virtual void CheckSystem() = 0;
  virtual std::vector<std::string> Listening() const = 0;

  struct Clocks {
    std::uint64_t monotonic_ns = 0;  // Read now, not at the turn's beginning: measurements use it.
    std::uint64_t unix_ns = 0;
  };
  virtual Clocks ReadClocks() const = 0;
};

}  // namespace mlxcomm::node
