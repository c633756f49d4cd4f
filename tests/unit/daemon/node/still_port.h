// A port through which a node's parts do nothing: a base for tests that override one function.
//
// Owner: a test. Thread: its own. Memory: none.
#pragma once

#include <string>
#include <vector>

#include "daemon/node/node_port.h"

namespace mlxcomm::node {

class StillPort : public NodePort {
 public:
  bool SubmitWork(const collective::LocalWork&, std::uint64_t) override { return false; }
  void Complete(const collective::Action&) override {}
  void ReleaseMemory(SessionId) override {}
  void OnGroups(std::size_t) override {}
  void OnForwarding(bool) override {}
  void OnEvent(record::LoggedEvent) override {}
  void OnViolation(const NodeId&, const std::string&) override {}
  std::vector<std::string> Describe(v1::NodeStatus&) const override { return {}; }
  std::vector<std::string> Listening() const override { return {}; }
  void DescribeLinks(v1::NodeStatus&) const override {}
  intake::CopiedResults ResultsCopiedBy(SessionId) const override { return {}; }
  void CheckSystem() override {}
  Clocks ReadClocks() const override { return {}; }
  void SendHello(const std::string&, const wire::DiscoveryHello&) override {}
  void Dial(const std::string&) override {}
  void StopDialing(const std::string&) override {}
  void OnRailGone() override {}
  void OnDeadlineChanged() override {}
};

}  // namespace mlxcomm::node
