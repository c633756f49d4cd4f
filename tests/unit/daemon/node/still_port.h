// A machine, processes and a log with which a node's parts do nothing: a base for tests that
// override one function.
//
// Owner: a test. Thread: its own. Memory: none.
#pragma once

#include <string>
#include <vector>

#include "daemon/intake/processes.h"
#include "daemon/node/node_port.h"
#include "daemon/record/event_log.h"

namespace mlxcomm::node {

using intake::SessionId;

class StillPort : public NodePort, public intake::Processes, public record::EventSink {
 public:
  bool SubmitWork(const collective::Action&) override { return false; }
  void Complete(SessionId, std::uint64_t, std::uint64_t, const Failure&, bool) override {}
  void ReleaseMemory(SessionId) override {}
  void Add(record::LoggedEvent) override {}
  void OnViolation(const NodeId&, const std::string&) override {}
  std::vector<std::string> Describe(v1::NodeStatus&) const override { return {}; }
  std::vector<std::string> Listening() const override { return {}; }
  void DescribeLinks(v1::NodeStatus&) const override {}
  void CheckSystem() override {}
  Clocks ReadClocks() const override { return {}; }
};

}  // namespace mlxcomm::node
