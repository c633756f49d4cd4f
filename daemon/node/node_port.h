// What a node needs of its process: threads that compute, shared memory, sockets, a log of events. The loop
// implements it over a machine (loop/loop.h), the simulator over virtual time (tests/sim/daemon.h).
//
// Owner: the node's owner; outlives the node. Thread: the node's; called from inside the node's calls, and
// may not call back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/discovery/discovery.h"
#include "daemon/collective/action.h"
#include "daemon/fabric/links.h"
#include "daemon/intake/submission.h"
#include "daemon/record/event_log.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::node {

using intake::SessionId;

class NodePort : public fabric::LinksPort, public discovery::DiscoveryPort {
 public:
  // True: another thread does the work, and Node::OnWorkDone(cookie) follows; false: the node does it
  // at once. `work` stays as it is until then.
  virtual bool SubmitWork(const collective::LocalWork& work, std::uint64_t cookie) = 0;
  // The end of an operation, for the process that called it.
  virtual void Complete(const collective::Action& action) = 0;
  // The session has ended, and no operation names its memory any more.
  virtual void ReleaseMemory(SessionId session) = 0;
  // Memory of zeros that these sessions' processes will share, in order of rank; nullptr: none is
  // available, as where there are no processes. GivePage hands it to them; it stays until DropPage.
  virtual std::byte* MakePage(std::uint64_t /*group*/, std::size_t /*bytes*/,
                              const std::vector<SessionId>& /*sessions*/) {
    return nullptr;
  }
  virtual void GivePage(std::uint64_t /*group*/, const std::vector<SessionId>& /*sessions*/) {}
  virtual void DropPage(std::uint64_t /*group*/) {}
  // The page of the group has been closed, as the session's process has asked.
  virtual void AnswerClose(SessionId /*session*/, std::uint64_t /*group*/) {}
  // An entry as if it had come from the session's queue; none: it was refused, or the process is
  // gone.
  virtual std::optional<intake::Submission> TakeOver(SessionId /*session*/,
                                                     const queue::SubmissionEntry& /*entry*/) {
    return std::nullopt;
  }
  virtual void OnGroups(std::size_t groups) = 0;
  // Other nodes' operations have begun to pass through this node, or have not done so for a while.
  virtual void OnForwarding(bool forwards) = 0;

  // For people; without a time.
  virtual void OnEvent(record::LoggedEvent event) = 0;
  // A frame or a message that no well-behaved daemon sends.
  virtual void OnViolation(const NodeId& node, const std::string& what) = 0;

  // For status: facts of the machine and the process, the interfaces on which neighbours are looked for;
  // links, with addresses that are still being dialed. Describe returns the jobs' users, by the order of
  // status.users, whose texts are for people; empty: a user without a name.
  virtual std::vector<std::string> Describe(v1::NodeStatus& status) const = 0;
  virtual void DescribeLinks(v1::NodeStatus& status) const = 0;
  virtual intake::CopiedResults ResultsCopiedBy(SessionId session) const = 0;
  // For doctor: examines interfaces and limits on another thread; Node::OnSystemChecked follows.
  // And the addresses at which this node listens.
  virtual void CheckSystem() = 0;
  virtual std::vector<std::string> Listening() const = 0;

  struct Clocks {
    std::uint64_t monotonic_ns = 0;  // Read now, not at the turn's beginning: measurements use it.
    std::uint64_t unix_ns = 0;
  };
  virtual Clocks ReadClocks() const = 0;
};

}  // namespace mlxcomm::node
