// Logs what happens to nodes and links, for people. Events of jobs are logged by jobs/job_events.h.
//
// Owner: Node. Thread: the node's.
#pragma once

#include <string>

#include "daemon/link/fabric_listener.h"
#include "daemon/record/event_log.h"

namespace mlxcomm::node {

class EventWriter {
 public:
  explicit EventWriter(record::EventSink& sink) : sink_(sink) {}  // It outlives this.

  void OnNodeUp(const link::NodeIdentity& node);
  void OnNodeLost(const std::string& name, const std::string& why);
  void OnNotice(const link::FabricNotice& notice);
  // Another machine has that node's id.
  void OnSameId(const std::string& name, const std::string& address);

 private:
  record::EventSink& sink_;
};

}  // namespace mlxcomm::node
