// The merged answers of several nodes, each of which reports only its own ends.
#include "daemon/discovery/topology.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::discovery::topology_reply_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Nodes "a", "b", .. with ids "id-a", ..
class Answers {
 public:
  Answers& Node(const std::string& name, const std::string& state = "up") {
    v1::NodeStatus& node = *status_.add_nodes();
    node.set_name(name);
    node.set_id("id-" + name);
    node.set_state(state);
    node.set_version("1");
    node.set_answered(true);
    return *this;
  }
  // From the view of the node added last.
  v1::LinkStatus& Link(const std::string& peer, v1::LinkState::Value state = v1::LinkState::up) {
    v1::LinkStatus& link = *status_.mutable_nodes()->rbegin()->add_links();
    link.set_peer(peer);
    link.set_peer_id("id-" + peer);
    link.set_state(state);
    return link;
  }
  static v1::RailStatus& Rail(v1::LinkStatus& link, const std::string& local,
                              const std::string& remote,
                              v1::RailState::Value state = v1::RailState::up) {
    v1::RailStatus& rail = *link.add_rails();
    rail.set_local_interface(local);
    rail.set_remote_interface(remote);
    rail.set_state(state);
    rail.set_origin("discovered");
    return rail;
  }
  v1::TopologyReply Reply() const { return TopologyOf(status_); }
  v1::StatusReply& status() { return status_; }

 private:
  v1::StatusReply status_;
};

std::vector<std::string> NamesIn(const v1::TopologyReply& reply) {
  std::vector<std::string> names;
  for (const v1::TopologyNode& node : reply.nodes())
    names.push_back(node.name() + " " + node.state());
  return names;
}

// Why: both ends report a cable; it is one, whichever answers first.
TEST(TopologyReplyTest, CountsACableOnceThoughBothEndsTellOfIt) {
  for (const bool a_first : {true, false}) {
    Answers answers;
    const auto add_a = [&] {
      v1::RailStatus& rail = Answers::Rail(answers.Node("a").Link("b"), "en2", "en3");
      rail.set_delivery_bytes_per_second(5e9);
      rail.set_delivery_bytes_per_second_best(6e9);
      rail.set_round_trip_ns(30'000);
    };
    const auto add_b = [&] {
      v1::RailStatus& rail = Answers::Rail(answers.Node("b").Link("a"), "en3", "en2");
      rail.set_delivery_bytes_per_second(4e9);
      rail.set_round_trip_ns(50'000);
      rail.set_origin("configured");
    };
    a_first ? add_a() : add_b();
    a_first ? add_b() : add_a();
    const v1::TopologyReply reply = answers.Reply();
    ASSERT_EQ(reply.cables_size(), 1);
    const v1::TopologyCable& cable = reply.cables(0);
    EXPECT_EQ(cable.from_node() + " " + cable.from_interface(), "id-a en2");
    EXPECT_EQ(cable.to_node() + " " + cable.to_interface(), "id-b en3");
    EXPECT_EQ(cable.state(), v1::RailState::up);
    EXPECT_EQ(cable.origin(), "configured");               // Where either end has it configured.
    EXPECT_DOUBLE_EQ(cable.bytes_per_second(), 4e9);       // The slower direction's,
    EXPECT_DOUBLE_EQ(cable.bytes_per_second_best(), 6e9);  // unless it was never measured.
    EXPECT_EQ(cable.round_trip_ns(), 50'000u);
    EXPECT_EQ(cable.switch_number(), 0u);
    EXPECT_EQ(reply.shape(), "pair");
    EXPECT_TRUE(reply.ring_closed());
    EXPECT_THAT(reply.ring(), ElementsAre("id-a", "id-b"));
    EXPECT_THAT(NamesIn(reply), ElementsAre("a up", "b up"));
  }
}

TEST(TopologyReplyTest, ACableIsUpIfEitherEndSaysSoAndSaysWhyWhereNeitherDoes) {
  Answers answers;
  answers.Node("a");
  v1::LinkStatus& from_a = answers.Link("b");
  Answers::Rail(from_a, "en1", "en1", v1::RailState::down).set_detail("not yet");
  Answers::Rail(from_a, "en2", "en2", v1::RailState::down).set_detail("no answer");
  v1::LinkStatus& from_b = answers.Node("b").Link("a");
  Answers::Rail(from_b, "en1", "en1");
  Answers::Rail(from_b, "en2", "en2", v1::RailState::down).set_detail("cannot connect");
  const v1::TopologyReply reply = answers.Reply();
  ASSERT_EQ(reply.cables_size(), 2);
  EXPECT_EQ(reply.cables(0).state(), v1::RailState::up);
  EXPECT_EQ(reply.cables(0).detail(), "");
  EXPECT_EQ(reply.cables(1).state(), v1::RailState::down);
  EXPECT_EQ(reply.cables(1).detail(), "no answer");
  EXPECT_EQ(reply.shape(), "pair");
}

// Why: a circuit is not a cable, and an address without an answer leads nowhere.
TEST(TopologyReplyTest, LeavesOutRoutesAndWhoIsNotKnown) {
  Answers answers;
  answers.Node("a");
  Answers::Rail(answers.Link("c"), "", "").set_transport(v1::Transport::route);
  v1::LinkStatus& unknown = answers.Link("");
  unknown.set_peer("10.0.0.9:7470");
  unknown.set_peer_id("");
  Answers::Rail(unknown, "en1", "en1", v1::RailState::down);
  answers.Node("c");
  const v1::TopologyReply reply = answers.Reply();
  EXPECT_THAT(reply.cables(), IsEmpty());
  EXPECT_EQ(reply.shape(), "other");
}

TEST(TopologyReplyTest, TellsOfLostNodesOnceAndLeavesThemOutOfTheShape) {
  Answers answers;
  answers.Node("a");
  Answers::Rail(answers.Link("b"), "en1", "en1");
  // It was reported a moment ago.
  Answers::Rail(answers.Link("c", v1::LinkState::lost), "en2", "en2");
  Answers::Rail(answers.Node("b").Link("a"), "en1", "en1");
  answers.Link("c", v1::LinkState::lost);
  const v1::TopologyReply reply = answers.Reply();
  EXPECT_THAT(NamesIn(reply), ElementsAre("a up", "b up", "c lost"));
  EXPECT_EQ(reply.shape(), "pair");
  EXPECT_THAT(reply.ring(), ElementsAre("id-a", "id-b"));
  EXPECT_EQ(reply.cables_size(), 2);
}

// How: three on a switch each see the two others on one interface.
TEST(TopologyReplyTest, NumbersTheSwitch) {
  Answers answers;
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const std::string& one : names) {
    answers.Node(one);
    for (const std::string& other : names) {
      if (other != one) Answers::Rail(answers.Link(other), "en0", "en0");
    }
  }
  answers.status().set_node("a");
  answers.status().set_cluster("studio");
  const v1::TopologyReply reply = answers.Reply();
  EXPECT_EQ(reply.node() + reply.cluster(), "astudio");
  ASSERT_EQ(reply.cables_size(), 3);
  for (const v1::TopologyCable& cable : reply.cables()) EXPECT_EQ(cable.switch_number(), 1u);
  EXPECT_EQ(reply.shape(), "switch");
  EXPECT_TRUE(reply.ring_closed());
}

// Why: the node that is asked lists itself first; the picture must not depend on that.
TEST(TopologyReplyTest, IsTheSameWhoeverIsAsked) {
  Answers one, other;
  const auto fill = [](Answers& answers, const std::vector<std::string>& order) {
    for (const std::string& name : order) {
      answers.Node(name);
      if (name != "a") Answers::Rail(answers.Link("a"), "en1", "en-" + name);
      if (name != "a") continue;
      Answers::Rail(answers.Link("b"), "en-b", "en1");
      Answers::Rail(answers.Link("c"), "en-c", "en1");
    }
  };
  fill(one, {"a", "b", "c"});
  fill(other, {"c", "b", "a"});
  EXPECT_EQ(one.Reply().SerializeAsString(), other.Reply().SerializeAsString());
  EXPECT_EQ(one.Reply().shape(), "line");
}

// Why: connection and queue pair are on one cable, and share its capacity: two cables, or the sum
// of both rates, would be more than there is.
TEST(TopologyReplyTest, TellsOfTheRailsOnACable) {
  Answers answers;
  const auto rail = [](v1::LinkStatus& link, const char* local, const char* remote,
                       v1::Transport::Value transport, double best) {
    v1::RailStatus& made = Answers::Rail(link, local, remote);
    made.set_transport(transport);
    made.set_delivery_bytes_per_second_best(best);
  };
  answers.Node("a");
  v1::LinkStatus& to_b = answers.Link("b");
  rail(to_b, "en2", "en3", v1::Transport::rdma, 6e9);
  rail(to_b, "en2", "en3", v1::Transport::tcp, 4e9);
  answers.Node("b");
  v1::LinkStatus& to_a = answers.Link("a");
  rail(to_a, "en3", "en2", v1::Transport::tcp, 3e9);
  rail(to_a, "en3", "en2", v1::Transport::rdma, 5e9);
  const v1::TopologyReply reply = answers.Reply();
  ASSERT_EQ(reply.cables_size(), 1);
  const v1::TopologyCable& cable = reply.cables(0);
  ASSERT_EQ(cable.rails_size(), 2);
  EXPECT_EQ(cable.rails(0).transport(), v1::Transport::tcp);
  EXPECT_EQ(cable.rails(0).bytes_per_second_best(), 3e9) << "of the slower direction";
  EXPECT_EQ(cable.rails(1).transport(), v1::Transport::rdma);
  EXPECT_EQ(cable.rails(1).state(), v1::RailState::up);
  EXPECT_EQ(cable.bytes_per_second_best(), 5e9);
}

// A rail that cannot be made is reported on the cable, and adds none of its own.
TEST(TopologyReplyTest, TellsWhyACableHasNoRdmaRail) {
  Answers answers;
  answers.Node("a");
  v1::LinkStatus& to_b = answers.Link("b");
  v1::RailStatus& down = Answers::Rail(to_b, "en2", "en3", v1::RailState::down);
  down.set_transport(v1::Transport::rdma);
  down.set_detail("rdma_en2: port 1 is down");
  v1::RailStatus& elsewhere = Answers::Rail(to_b, "en7", "en7", v1::RailState::down);
  elsewhere.set_transport(v1::Transport::rdma);
  Answers::Rail(to_b, "en2", "en3").set_transport(v1::Transport::tcp);
  const v1::TopologyReply reply = answers.Reply();
  ASSERT_EQ(reply.cables_size(), 1);
  EXPECT_EQ(reply.cables(0).state(), v1::RailState::up);
  ASSERT_EQ(reply.cables(0).rails_size(), 2);
  EXPECT_EQ(reply.cables(0).rails(1).state(), v1::RailState::down);
  EXPECT_EQ(reply.cables(0).rails(1).detail(), "rdma_en2: port 1 is down");
}

}  // namespace
}  // namespace mlxcomm::discovery::topology_reply_test
