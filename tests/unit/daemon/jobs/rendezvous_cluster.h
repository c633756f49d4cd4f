// Nodes whose rendezvous are joined by queues.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/rendezvous.h"
#include "tests/unit/daemon/jobs/carried_out.h"
#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::jobs::rendezvous_test {

constexpr auto Id = node::IdOf;

inline v1::RankAnnounced Claim(const JobId& job, std::uint32_t rank, std::uint32_t size,
                               std::uint64_t pid = 0, const std::string& named_by = "") {
  v1::RankAnnounced claim;
  claim.set_user(job.user);
  claim.set_job(job.name);
  claim.set_rank(rank);
  claim.set_size(size);
  claim.set_pid(pid);
  claim.set_program("program");
  claim.set_named_by(named_by);
  return claim;
}

// Run empties the queues.
class Cluster {
 public:
  struct Node final : AskedOfNobody {
    using AskedOfNobody::On;
    Node(Cluster& cluster, std::uint8_t number)
        : Node(cluster, number, std::uint64_t{number} << 40) {}
    Node(Cluster& cluster, std::uint8_t number, std::uint64_t incarnation)
        : owner(cluster),
          id(Id(number)),
          incarnation(incarnation),
          machine(id, "node-" + std::to_string(number), incarnation, outbox) {}
    CarriedOut<Node, Rendezvous> rendezvous() { return {*this, machine}; }
    void Meet(const Node& other) {
      rendezvous()->OnNodeUp(
          {other.id, "node-" + std::to_string(other.id.bytes[0]), "test", other.incarnation});
    }
    void On(const SendTo& request) { owner.wire.push_back({id, request.node, request.message}); }
    void On(const SendToAll& request) {
      for (const auto& other : owner.nodes) {
        if (other->id != id) On(SendTo{other->id, request.message});
      }
    }
    void On(const WorldFormed& world) {
      formed.push_back(world.group);
      last_job = world.job;
      last_costs = world.costs;
      last = world.members;
    }
    void On(const AttachRefused& one) { refused[one.session] = one.failure; }
    Cluster& owner;
    NodeId id;
    std::uint64_t incarnation;
    Outbox outbox;
    Rendezvous machine;
    std::vector<std::uint64_t> formed;
    std::vector<FormedMember> last;
    JobId last_job;
    v1::LinkCosts own_costs;
    v1::LinkCosts last_costs;
    std::map<std::uint64_t, Failure> refused;
  };
  struct Message {
    NodeId from;
    NodeId to;
    v1::PeerMessage body;
  };

  explicit Cluster(int count) {
    for (int i = 1; i <= count; ++i) {
      nodes.push_back(std::make_unique<Node>(*this, static_cast<std::uint8_t>(i)));
    }
    for (const auto& a : nodes) {
      for (const auto& b : nodes) {
        if (a != b) a->Meet(*b);
      }
    }
  }
  void Run() {
    while (!wire.empty()) Step();
  }
  void Step() {
    const Message message = wire.front();
    wire.pop_front();
    const auto to = nodes[message.to.bytes[0] - 1u]->rendezvous();
    const v1::PeerMessage& body = message.body;
    if (body.has_rank_announced()) to->OnRankAnnounced(message.from, body.rank_announced());
    if (body.has_rank_withdrawn()) to->OnRankWithdrawn(message.from, body.rank_withdrawn());
    if (body.has_world_formed()) to->OnWorldFormedElsewhere(message.from, body.world_formed());
    if (body.has_world_refused()) to->OnWorldRefused(message.from, body.world_refused());
  }
  void Attach(int node, std::uint64_t session, std::uint32_t rank, std::uint32_t size,
              const std::string& job = "job", const std::string& user = "ann") {
    Node& here = *nodes[static_cast<std::size_t>(node)];
    v1::RankAnnounced claim = Claim({user, job}, rank, size, 1000 + session);
    *claim.mutable_costs() = here.own_costs;
    here.rendezvous()->Attach(session, std::move(claim), 1'000'000'000, 0);
  }
  std::deque<Message> wire;
  std::vector<std::unique_ptr<Node>> nodes;
};

}  // namespace mlxcomm::jobs::rendezvous_test
