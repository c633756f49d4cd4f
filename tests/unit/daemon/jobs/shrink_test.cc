// The remaining ranks of a failed group get a group of their own, whichever asks first and
// whichever dies during that.
#include "daemon/jobs/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/unit/daemon/jobs/carried_out.h"
#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::jobs::shrink_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto Id = node::IdOf;

// Nodes with a failed group of `ranks_per_node` ranks each, joined by ordered wires that a test
// empties in any order. The session of rank r is r + 1.
class Cluster {
 public:
  static constexpr std::uint64_t kWorld = 7;
  using Ranks = std::vector<std::uint32_t>;  // Numbers in the world.

  struct Group {
    Ranks world_ranks;
    bool failed = false;
    std::set<std::uint32_t> gone;  // Local ones.
  };
  struct Node final : ShrinkGroups, AskedOfNobody {
    using AskedOfNobody::On;
    Node(Cluster& cluster, int number)
        : owner(cluster),
          index(number),
          id(Id(static_cast<std::uint8_t>(number + 1))),
          machine(id, *this, outbox) {}
    CarriedOut<Node, Shrink> shrink() { return {*this, machine}; }
    void On(const SendTo& request) {
      const int other = request.node.bytes[0] - 1;
      if (owner.Linked(index, other)) owner.wires[{index, other}].push_back(request.message);
    }
    bool IsReachable(const NodeId& to) const override {
      return owner.Linked(index, to.bytes[0] - 1);
    }
    bool Look(std::uint64_t group, GroupView& view) override {
      const auto found = groups.find(group);
      if (found == groups.end()) return false;
      view.name = "train";
      view.failed = found->second.failed;
      view.ranks.clear();
      for (std::uint32_t rank = 0; rank < found->second.world_ranks.size(); ++rank) {
        const std::uint32_t world_rank = found->second.world_ranks[rank];
        view.ranks.push_back({owner.nodes[owner.NodeOf(world_rank)]->id,
                              "rank " + std::to_string(rank) + " (node)",
                              found->second.gone.contains(rank)});
      }
      return true;
    }
    std::uint64_t NewGroupId() override {
      return static_cast<std::uint64_t>(index + 1) * 1000 + ++ids;
    }
    bool MakeShrunk(std::uint64_t group, std::uint64_t new_group, const Ranks& ranks,
                    const std::vector<std::uint64_t>& sessions) override {
      if (groups.contains(new_group) || refuses) return false;
      Group made;
      for (std::uint32_t i = 0; i < ranks.size(); ++i) {
        const std::uint32_t world_rank = groups[group].world_ranks[ranks[i]];
        made.world_ranks.push_back(world_rank);
        if (owner.NodeOf(world_rank) == static_cast<std::size_t>(index) && sessions[i] == 0) {
          made.gone.insert(i);
          made.failed = true;
        }
        if (!IsReachable(owner.nodes[owner.NodeOf(world_rank)]->id) &&
            owner.NodeOf(world_rank) != static_cast<std::size_t>(index)) {
          made.failed = true;
        }
      }
      groups[new_group] = made;
      return true;
    }
    void On(const ShrinkReady& one) { ready[one.session].push_back(one.new_group); }
    void On(const ShrinkRefused& one) { refused[one.session] = one.failure; }
    void On(const PlaceGivenUp& place) {
      owner.Leave(*this, place.new_group, static_cast<std::uint32_t>(place.session - 1));
      groups[place.new_group].failed = true;
    }
    void On(const GroupFailed& failed) {
      groups[failed.group].failed = true;
      why = failed.failure;
    }
    Cluster& owner;
    int index;
    NodeId id;
    Outbox outbox;
    Shrink machine;
    std::map<std::uint64_t, Group> groups;
    std::map<std::uint64_t, std::vector<std::uint64_t>> ready;
    std::map<std::uint64_t, Failure> refused;
    Failure why;
    std::uint64_t ids = 0;
    bool refuses = false;
    bool dead = false;
  };

  Cluster(int count, int ranks_per_node) : ranks_per_node_(ranks_per_node) {
    Group world;
    for (int rank = 0; rank < count * ranks_per_node; ++rank) {
      world.world_ranks.push_back(static_cast<std::uint32_t>(rank));
    }
    world.failed = true;
    for (int i = 0; i < count; ++i) {
      nodes.push_back(std::make_unique<Node>(*this, i));
      nodes.back()->groups[kWorld] = world;
    }
  }
  std::size_t NodeOf(std::uint32_t rank) const {
    return rank / static_cast<std::uint32_t>(ranks_per_node_);
  }
  bool Linked(int a, int b) const {
    return !nodes[static_cast<std::size_t>(a)]->dead && !nodes[static_cast<std::size_t>(b)]->dead;
  }
  Node& Of(std::uint32_t rank) { return *nodes[NodeOf(rank)]; }
  static std::uint32_t RankIn(const Group& group, std::uint32_t world_rank) {
    const auto found = std::find(group.world_ranks.begin(), group.world_ranks.end(), world_rank);
    return static_cast<std::uint32_t>(found - group.world_ranks.begin());
  }
  void Leave(Node& node, std::uint64_t group, std::uint32_t world_rank) {
    Group& left = node.groups[group];
    left.gone.insert(RankIn(left, world_rank));
  }
  void Ask(std::uint32_t rank, std::uint64_t group = kWorld, std::uint64_t timeout = 1000) {
    Node& node = Of(rank);
    node.shrink()->Ask(rank + 1, group, RankIn(node.groups[group], rank), timeout, now);
  }
  // The rank's process ends: it is gone from all groups.
  void Kill(std::uint32_t rank) {
    Node& node = Of(rank);
    for (auto& [id, group] : node.groups) {
      if (RankIn(group, rank) == group.world_ranks.size()) continue;
      node.shrink()->Withdraw(rank + 1, id);
      Leave(node, id, rank);
      FailEverywhere(id);
      node.shrink()->OnChanged(id);
    }
  }
  void FailEverywhere(std::uint64_t group) {
    for (const auto& node : nodes) {
      if (node->groups.contains(group)) node->groups[group].failed = true;
    }
  }
  // The daemon is killed; its unread messages are lost from `cut` on.
  void KillNode(int lost, bool unread_is_lost = true) {
    nodes[static_cast<std::size_t>(lost)]->dead = true;
    for (auto& [wire, messages] : wires) {
      if (wire.second == lost || (wire.first == lost && unread_is_lost)) messages.clear();
    }
    for (const auto& node : nodes) {
      if (node->dead) continue;
      for (auto& [id, group] : node->groups) FailIfOn(group, lost);
    }
  }
  void ReportLoss(int lost) {
    for (const auto& node : nodes) {
      if (!node->dead) NoticeLoss(*node, lost);
    }
  }
  void NoticeLoss(Node& node, int lost) {
    wires[{lost, node.index}].clear();
    for (auto& [id, group] : node.groups) FailIfOn(group, lost);
    node.shrink()->OnNodeLost(Id(static_cast<std::uint8_t>(lost + 1)));
  }
  void FailIfOn(Group& group, int lost) const {
    for (const std::uint32_t rank : group.world_ranks) {
      if (NodeOf(rank) == static_cast<std::size_t>(lost)) group.failed = true;
    }
  }
  bool DeliverOne(int from, int to) {
    auto& wire = wires[{from, to}];
    if (wire.empty()) return false;
    const v1::PeerMessage message = wire.front();
    wire.pop_front();
    const auto shrink = nodes[static_cast<std::size_t>(to)]->shrink();
    const NodeId& sender = nodes[static_cast<std::size_t>(from)]->id;
    bool fine = true;
    if (message.has_shrink_state()) fine = shrink->OnState(sender, message.shrink_state());
    if (message.has_shrink_formed()) fine = shrink->OnFormed(sender, message.shrink_formed());
    if (message.has_shrink_joined()) shrink->OnJoined(sender, message.shrink_joined());
    if (message.has_shrink_ready()) shrink->OnReady(sender, message.shrink_ready());
    if (!fine) ++violations;
    return true;
  }
  void Run() { Run(~std::uint64_t{0}, nullptr); }
  // At most this many messages, in a random order of the wires.
  void Run(std::uint64_t messages, std::mt19937* random) {
    for (; messages > 0; --messages) {
      std::vector<std::pair<int, int>> ready;
      for (const auto& [wire, queued] : wires) {
        if (!queued.empty()) ready.push_back(wire);
      }
      if (ready.empty()) return;
      const auto [from, to] = ready[random == nullptr ? 0 : (*random)() % ready.size()];
      DeliverOne(from, to);
    }
  }
  // The world ranks of the group that the rank got; empty if none.
  Ranks GroupOf(std::uint32_t rank) {
    Node& node = Of(rank);
    const auto found = node.ready.find(rank + 1);
    return found == node.ready.end() ? Ranks{} : node.groups[found->second.back()].world_ranks;
  }
  std::uint64_t LastOf(std::uint32_t rank) { return Of(rank).ready.at(rank + 1).back(); }

  std::vector<std::unique_ptr<Node>> nodes;
  std::map<std::pair<int, int>, std::deque<v1::PeerMessage>> wires;
  std::uint64_t now = 0;
  std::uint64_t violations = 0;

 private:
  int ranks_per_node_;
};

TEST(ShrinkTest, WorksOnOneNodeAndWithSeveralRanksANode) {
  Cluster one(1, 3);
  one.Kill(0);
  one.Ask(2);
  EXPECT_TRUE(one.GroupOf(2).empty());
  one.Ask(1);
  EXPECT_THAT(one.GroupOf(1), ElementsAre(1, 2));
  EXPECT_THAT(one.GroupOf(2), ElementsAre(1, 2));

  Cluster two(2, 2);
  two.Ask(0);
  two.Ask(3);
  two.Ask(1);
  two.Run();
  EXPECT_TRUE(two.GroupOf(0).empty());
  two.Kill(2);  // Only now: no rank waits for it any more.
  two.Run();
  for (const std::uint32_t rank : {0u, 1u, 3u})
    EXPECT_THAT(two.GroupOf(rank), ElementsAre(0, 1, 3));
}

// Why: a node whose ranks have all closed the failed group forgets it.
TEST(ShrinkTest, TakesRanksOfANodeThatKnowsNoSuchGroupForGone) {
  Cluster cluster(2, 1);
  cluster.nodes[1]->groups.clear();
  cluster.nodes[1]->shrink()->OnGroupRemoved(Cluster::kWorld);
  cluster.Ask(0);
  cluster.Run();
  EXPECT_THAT(cluster.GroupOf(0), ElementsAre(0));
}

TEST(ShrinkTest, DeadlineNamesWhoHasNotAskedAndLeavesTheOthersAsking) {
  Cluster cluster(3, 1);
  cluster.Ask(0, Cluster::kWorld, 500);
  cluster.Ask(2, Cluster::kWorld, 900);
  cluster.Run();
  cluster.nodes[0]->shrink()->OnTime(499);
  EXPECT_TRUE(cluster.nodes[0]->refused.empty());
  EXPECT_EQ(cluster.nodes[0]->shrink()->NextDeadline(), 500u);
  cluster.nodes[0]->shrink()->OnTime(500);
  const Failure& failure = cluster.nodes[0]->refused.at(1);
  EXPECT_EQ(failure.code, FailureCode::kDeadlineExceeded);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(failure.message, HasSubstr("rank 1 (node) has neither called shrink"));
  EXPECT_THAT(failure.message, testing::Not(HasSubstr("rank 2")));
  // It asks again, and the last one asks, too: all three are present.
  cluster.Ask(0);
  cluster.Ask(1);
  cluster.Run();
  EXPECT_THAT(cluster.GroupOf(2), ElementsAre(0, 1, 2));
}

TEST(ShrinkTest, RefusesAGroupThatWorks) {
  Cluster cluster(2, 1);
  cluster.nodes[0]->groups[Cluster::kWorld].failed = false;
  cluster.Ask(0);
  EXPECT_EQ(cluster.nodes[0]->refused.at(1).code, FailureCode::kInvalidArgument);
}

TEST(ShrinkTest, TwoShrinksOneAfterTheOther) {
  Cluster cluster(3, 1);
  cluster.Kill(2);
  cluster.Ask(0);
  cluster.Ask(1);
  cluster.Run();
  const std::uint64_t first = cluster.LastOf(0);
  cluster.Kill(0);
  cluster.Run();
  cluster.Ask(1, first);
  cluster.Run();
  EXPECT_THAT(cluster.GroupOf(1), ElementsAre(1));
  EXPECT_NE(cluster.LastOf(1), first);
  for (const auto& node : cluster.nodes) {
    for (const std::uint64_t group : {first, Cluster::kWorld, cluster.LastOf(1)}) {
      node->groups.erase(group);
      node->shrink()->OnGroupRemoved(group);
    }
    EXPECT_EQ(node->shrink()->entry_count(), 0u);  // Nothing is kept.
  }
}

// Why: a rank that knows that the new group is ready continues with it, so the others must not form
// another one without it.
// How: the node that forms it dies when only one of two nodes has got "ready".
TEST(ShrinkTest, WhoWasToldReadyTellsTheOthersWhenTheFormerIsLost) {
  Cluster cluster(4, 1);
  cluster.Kill(3);
  for (const std::uint32_t rank : {0u, 1u, 2u}) cluster.Ask(rank);
  while (cluster.GroupOf(1).empty()) {
    bool any = false;
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        if (from == 0 && to == 2 && !cluster.wires[{0, 2}].empty() &&
            cluster.wires[{0, 2}].front().has_shrink_ready()) {
          continue;
        }
        any = cluster.DeliverOne(from, to) || any;
      }
    }
    ASSERT_TRUE(any);
  }
  // It has also closed the failed group in the meantime.
  cluster.Leave(*cluster.nodes[1], Cluster::kWorld, 1);
  cluster.nodes[1]->shrink()->OnChanged(Cluster::kWorld);
  cluster.KillNode(0);
  EXPECT_TRUE(cluster.GroupOf(2).empty());
  cluster.ReportLoss(0);
  cluster.Run();
  EXPECT_THAT(cluster.GroupOf(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(cluster.LastOf(2), cluster.LastOf(1));
  // Then they shrink that one.
  const std::uint64_t failed = cluster.LastOf(1);
  cluster.Ask(1, failed);
  cluster.Ask(2, failed);
  cluster.Run();
  EXPECT_THAT(cluster.GroupOf(1), ElementsAre(1, 2));
  EXPECT_THAT(cluster.GroupOf(2), ElementsAre(1, 2));
}

// Why: any message can be the last one that a daemon sends.
// How: every schedule of a seed is cut after every number of messages: a node (with its unread
// messages, or without them) or a rank dies there. The remaining ranks ask until they have a group
// without a lost rank. All must then be in the same one, with none missing.
class ShrinkDeathTest : public testing::TestWithParam<int> {};

TEST_P(ShrinkDeathTest, ThoseWhoAreLeftAlwaysEndInOneGroup) {
  for (std::uint64_t cut = 0; cut < 60; ++cut) {
    std::mt19937 random(static_cast<std::uint32_t>(GetParam()));
    Cluster cluster(4, 1 + GetParam() % 2);
    const auto size = static_cast<std::uint32_t>(cluster.nodes[0]->groups[7].world_ranks.size());
    cluster.Kill(size - 1);
    std::set<std::uint32_t> left;
    for (std::uint32_t rank = 0; rank + 1 < size; ++rank) left.insert(rank);
    std::vector<std::uint32_t> order(left.begin(), left.end());
    std::shuffle(order.begin(), order.end(), random);
    for (const std::uint32_t rank : order) cluster.Ask(rank);
    cluster.Run(cut, &random);
    std::optional<int> lost;
    if (random() % 3 != 0) {
      lost = static_cast<int>(random() % 4);
      cluster.KillNode(*lost, random() % 2 == 0);
      std::erase_if(left, [&](std::uint32_t r) { return cluster.NodeOf(r) == std::size_t(*lost); });
      cluster.Run(random() % 8, &random);
      for (const auto& node : cluster.nodes) {  // They notice at different times.
        if (!node->dead) cluster.NoticeLoss(*node, *lost);
        cluster.Run(random() % 8, &random);
      }
    } else {
      const std::uint32_t rank = order[random() % order.size()];
      cluster.Kill(rank);
      left.erase(rank);
    }
    cluster.Run(~std::uint64_t{0}, &random);
    // A rank that has a failed group shrinks that one.
    std::map<std::uint32_t, std::uint64_t> asked;
    for (int round = 0; round < 4; ++round) {
      for (const std::uint32_t rank : left) {
        auto& node = cluster.Of(rank);
        if (node.ready[rank + 1].empty()) continue;
        const std::uint64_t last = node.ready[rank + 1].back();
        bool failed = false;
        for (const auto& other : cluster.nodes) {
          failed = failed || (other->groups.contains(last) && other->groups[last].failed);
        }
        if (!failed || asked[rank] == last) continue;
        cluster.FailEverywhere(last);
        asked[rank] = last;
        cluster.Ask(rank, last);
      }
      cluster.Run(~std::uint64_t{0}, &random);
    }
    for (const std::uint32_t rank : left) {
      EXPECT_EQ(cluster.GroupOf(rank), Cluster::Ranks(left.begin(), left.end()))
          << "rank " << rank << " seed " << GetParam() << " cut " << cut << " lost "
          << (lost ? *lost : -1);
      if (cluster.GroupOf(rank).empty()) continue;
      EXPECT_EQ(cluster.LastOf(rank), cluster.LastOf(*left.begin()));
    }
    ASSERT_EQ(cluster.violations, 0u);
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ShrinkDeathTest, testing::Range(0, 40));

TEST(ShrinkTest, ANodeThatCannotTakePartFailsTheNewGroup) {
  Cluster cluster(2, 1);
  cluster.nodes[1]->refuses = true;
  cluster.Ask(0);
  cluster.Ask(1);
  cluster.Run();
  EXPECT_THAT(cluster.nodes[0]->why.message, HasSubstr("too many groups"));
  EXPECT_THAT(cluster.nodes[0]->why.message, HasSubstr("cannot join the new one"));
  EXPECT_EQ(cluster.nodes[0]->why.rank, 1) << "a lost rank is named";
  EXPECT_EQ(cluster.nodes[0]->ready[1].size(), 1u);
}

// Why: other daemons are not trusted.
TEST(ShrinkTest, BelievesANodeAboutItsOwnRanksOnly) {
  Cluster cluster(3, 1);
  Cluster::Node& node = *cluster.nodes[0];
  cluster.Ask(0);
  v1::ShrinkState state;
  state.set_group(Cluster::kWorld);
  state.add_asked(2);
  state.add_asked(77);
  EXPECT_FALSE(node.shrink()->OnState(Id(2), state));
  EXPECT_FALSE(node.shrink()->OnState(Id(9), state));  // Not a node of the group.
  state.clear_asked();
  state.add_gone(1);
  EXPECT_TRUE(node.shrink()->OnState(Id(2), state));
  EXPECT_TRUE(cluster.GroupOf(0).empty());  // Rank 2 has not asked.
  v1::ShrinkFormed formed;
  formed.set_group(Cluster::kWorld);
  formed.set_new_group(5);
  EXPECT_FALSE(node.shrink()->OnFormed(Id(3), formed));  // Not a node.
  formed.add_ranks(0);
  formed.add_ranks(2);
  EXPECT_FALSE(node.shrink()->OnFormed(Id(3), formed));  // It must not form it.
  formed.clear_ranks();
  formed.add_ranks(2);
  formed.add_ranks(2);
  EXPECT_FALSE(node.shrink()->OnFormed(Id(3), formed));  // Twice.
  formed.clear_ranks();
  formed.add_ranks(2);
  EXPECT_TRUE(node.shrink()->OnFormed(Id(3), formed));  // Has no rank here: only refused.
  EXPECT_FALSE(cluster.nodes[0]->groups.contains(5));
}

}  // namespace
}  // namespace mlxcomm::jobs::shrink_test
