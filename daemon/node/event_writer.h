// The events that are logged for people: one line for each thing that an operator would want to know, never
// one for a single operation.
//
// Owner: Node. Thread: the node's. Memory: job_history.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/collective/collectives.h"
#include "daemon/jobs/membership.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/jobs/job_history.h"
#include "daemon/node/node_port.h"
#include "daemon/record/event_log.h"
#include "daemon/record/operation_recorder.h"
#include "proto/types/job_id.h"

namespace mlxcomm::node {

class EventWriter {
 public:
  // Both outlive it.
  EventWriter(NodePort& port, OperationRecorder& recorder) : port_(port), recorder_(recorder) {}

  void OnNodeUp(const link::NodeIdentity& node);
  void OnNodeLost(const std::string& name, const std::string& why);
  void OnNotice(const link::FabricNotice& notice);
  // Another machine says that it is that node.
  void OnSameId(const std::string& name, const std::string& address);
  void OnRankGone(const JobId& job, std::uint32_t rank, std::uint64_t pid, const std::string& why);
  void OnJobFormed(const JobId& job, std::uint32_t ranks, std::uint64_t group);
  void OnJobShrunk(std::uint64_t group, std::uint64_t new_group, std::uint32_t ranks) {
    history_.OnShrunk(group, new_group, ranks);
  }
  // A group was made, with the name that the record's readers use for it; a group was removed.
  void OnGroupMade(const collective::Group& group, const JobId& job) {
    recorder_.NameGroup(group, job);
  }
  void OnGroupRemoved(std::uint64_t group, std::uint64_t now_ns);
  // Reports the groups that have failed since the last call.
  void ReportFailures(collective::Collectives& collectives,
                      const jobs::Membership& membership);
  const JobHistory& history() const { return history_; }

 private:
  void Report(const char* kind, record::EventSeverity severity, const std::string& object,
              const std::string& text, std::optional<std::string> user = std::nullopt);

  NodePort& port_;
  OperationRecorder& recorder_;
  JobHistory history_;
};

}  // namespace mlxcomm::node
