// The worlds that exist on this node and are not yet known to be ready everywhere.
//
//   WorldFormed ─▶ the group exists here ─there is a route to each of its nodes─▶ WorldJoined
//        ─rank 0's node has heard it from all, and has its own routes─▶ WorldReady ─▶ processes begin
//
// No process begins before the world exists everywhere; see README.md, FormingWorlds.
//
// Sans-I/O: calls in, calls of the FormingWorldsPort out; time is an argument. Owner: Jobs. Thread: the
// loop's. Memory: an entry for each world that is forming, with its nodes; at most as many as groups.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/cluster/rendezvous.h"
#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/failure.h"
#include "proto/types/node_id.h"

namespace mlxcomm::cluster {

// None of these calls may call back.
class FormingWorldsPort : public Peers {
 public:
  // Fails it here and on the other nodes.
  virtual void FailGroup(std::uint64_t group, const Failure& failure) = 0;
  // Its local processes may begin.
  virtual void OnWorldReady(std::uint64_t group) = 0;
};

class FormingWorlds {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Timeouts {
    std::uint64_t way_ns = 5'000'000'000;
    std::uint64_t join_ns = 300'000'000'000;
  };

  FormingWorlds(const NodeId& self, std::string self_name, const Timeouts& timeouts,
                FormingWorldsPort& port)
      : self_(self), self_name_(std::move(self_name)), timeouts_(timeouts), port_(port) {}

  // The group has been made here. In order of rank.
  void Add(std::uint64_t group, const std::string& name, const std::vector<FormedMember>& members,
           std::uint64_t now_ns);
  // It has failed, or is no more on this node: nothing follows.
  void Remove(std::uint64_t group) { worlds_.erase(group); }
  // A local rank has left the group in order.
  void OnLeft(std::uint64_t group, std::uint32_t rank);

  void OnNodeUp(const NodeId& node);
  void OnJoined(const NodeId& node, std::uint64_t group);
  void OnReady(const NodeId& node, std::uint64_t group);

  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;
  std::size_t world_count() const { return worlds_.size(); }

 private:
  struct Awaited {
    NodeId node;
    std::string name;
    std::uint32_t rank = 0;  // The first there.
  };
  struct World {
    std::string name;
    NodeId coordinator;  // The node of rank 0.
    std::string coordinator_name;
    std::vector<NodeId> nodes;        // All but this.
    std::vector<Awaited> wayless;     // Nodes to which there is no way yet.
    std::vector<Awaited> not_joined;  // Coordinator.
    std::uint64_t way_deadline_ns = 0;
    std::uint64_t join_deadline_ns = 0;
  };
  using Worlds = std::map<std::uint64_t, World>;  // By group.

  void SendStep(const NodeId& node, std::uint64_t group, bool ready);
  // After the last way has come, or the last node has joined.
  void Advance(Worlds::iterator world);
  void Finish(Worlds::iterator world);
  Failure NoWay(const World& world) const;
  Failure NotJoined(const World& world) const;

  NodeId self_;
  std::string self_name_;
  Timeouts timeouts_;
  FormingWorldsPort& port_;
  Worlds worlds_;
};

}  // namespace mlxcomm::cluster
