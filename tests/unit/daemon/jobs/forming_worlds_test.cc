// A world begins when it exists on every node and each has a route to all others, whenever that
// happens; otherwise it fails everywhere, and no rank waits forever.
#include "daemon/jobs/forming_worlds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/jobs/carried_out.h"
#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::jobs::forming_worlds_test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kGroup = 9;
constexpr std::uint64_t kSecondNs = 1'000'000'000;

NodeId Id(int number) { return node::IdOf(static_cast<std::uint8_t>(number + 1)); }

// Nodes with one rank each, joined by ordered wires that a test empties in any order. A failed
// group is reported to all nodes with a route, and by each node that learns of it.
class Cluster {
 public:
  struct Node final : AskedOfNobody {
    using AskedOfNobody::On;
    Node(Cluster& cluster, int number)
        : owner(cluster),
          index(number),
          machine(Id(number), "node-" + std::to_string(number), 5 * kSecondNs, outbox) {}
    CarriedOut<Node, FormingWorlds> worlds() { return {*this, machine}; }
    void On(const SendTo& request) { SendToNode(request.node, request.message); }
    void SendToNode(const NodeId& to, const v1::PeerMessage& message) {
      const int other = to.bytes[0] - 1;
      if (owner.Linked(index, other)) owner.wires[{index, other}].push_back(message);
    }
    void On(const GroupFailed& failed) { FailGroup(failed.group, failed.failure); }
    void FailGroup(std::uint64_t group, const Failure& cause) {
      EXPECT_EQ(group, kGroup);
      if (!failure.ok()) return;
      failure = cause;
      v1::PeerMessage message;
      message.mutable_failure_report()->set_group(group);
      message.mutable_failure_report()->set_code(static_cast<std::uint32_t>(cause.code));
      for (int other = 0; other < static_cast<int>(owner.nodes.size()); ++other) {
        if (other != index) SendToNode(Id(other), message);
      }
    }
    // Its group loses the rank.
    void On(const RankLate& one) {
      EXPECT_EQ(one.session, SessionOf(index));
      machine.Remove(kGroup);
      late = one.failure;
      FailGroup(kGroup, {FailureCode::kRankLost, index, "it gave up"});
    }
    void On(const WorldReady& world) {
      EXPECT_EQ(world.group, kGroup);
      ++begun;
      owner.CheckThatAllMayBegin();
    }
    Cluster& owner;
    int index;
    Outbox outbox;
    FormingWorlds machine;
    bool formed = false;
    Failure failure;
    Failure late;  // The result of its rank, which gave up.
    int begun = 0;
  };

  explicit Cluster(int count) {
    for (int i = 0; i < count; ++i) {
      nodes.push_back(std::make_unique<Node>(*this, i));
      members.push_back({Id(i), "node-" + std::to_string(i), 100, 0, FormingWorlds::kNever, 0});
    }
  }
  static std::uint64_t SessionOf(int node) { return 10 + static_cast<std::uint64_t>(node); }
  static std::pair<int, int> Cable(int a, int b) { return {std::min(a, b), std::max(a, b)}; }
  bool Linked(int a, int b) const { return links.contains(Cable(a, b)); }
  void Link(int a, int b) {
    if (!links.insert(Cable(a, b)).second) return;
    nodes[static_cast<std::size_t>(a)]->worlds()->OnNodeUp(Id(b));
    nodes[static_cast<std::size_t>(b)]->worlds()->OnNodeUp(Id(a));
  }
  void LinkAllBut(std::set<std::pair<int, int>> missing) {
    for (int a = 0; a < static_cast<int>(nodes.size()); ++a) {
      for (int b = a + 1; b < static_cast<int>(nodes.size()); ++b) {
        if (!missing.contains({a, b})) Link(a, b);
      }
    }
  }
  Node& at(int node) { return *nodes[static_cast<std::size_t>(node)]; }
  // The node of rank 0 has all announcements.
  void Form() {
    v1::PeerMessage message;
    message.mutable_world_formed()->set_group(kGroup);
    for (int other = 1; other < static_cast<int>(nodes.size()); ++other) {
      at(0).SendToNode(Id(other), message);
    }
    Make(0);
  }
  void Make(int node) {
    at(node).formed = true;
    std::vector<FormedMember> as_seen = members;
    FormedMember& own = as_seen[static_cast<std::size_t>(node)];
    own.session = SessionOf(node);
    own.timeout_ns = timeouts_ns.contains(node) ? timeouts_ns[node] : 300 * kSecondNs;
    own.deadline_ns = now_ns + own.timeout_ns;
    const auto is_reachable = [this, node](const NodeId& to) {
      return Linked(node, to.bytes[0] - 1);
    };
    at(node).worlds()->Add(kGroup, "train", as_seen, is_reachable, now_ns);
  }
  void Deliver(int from, int to) {
    std::deque<v1::PeerMessage>& wire = wires[{from, to}];
    const v1::PeerMessage message = wire.front();
    wire.pop_front();
    if (message.has_world_formed()) Make(to);
    if (message.has_world_joined()) at(to).worlds()->OnJoined(Id(from), kGroup);
    if (message.has_world_ready()) at(to).worlds()->OnReady(Id(from), kGroup);
    if (message.has_failure_report() && at(to).formed) {
      at(to).worlds()->Remove(kGroup);
      at(to).FailGroup(
          kGroup, {static_cast<FailureCode>(message.failure_report().code()), kNoRank, "reported"});
    }
  }
  std::vector<std::pair<int, int>> Loaded() const {
    std::vector<std::pair<int, int>> loaded;
    for (const auto& [ends, wire] : wires) {
      if (!wire.empty()) loaded.push_back(ends);
    }
    return loaded;
  }
  void Run() {
    for (auto loaded = Loaded(); !loaded.empty(); loaded = Loaded()) {
      Deliver(loaded.front().first, loaded.front().second);
    }
  }
  void Wait(std::uint64_t ns) {
    now_ns += ns;
    for (const auto& node : nodes) {
      if (node->worlds()->NextDeadline() <= now_ns) node->worlds()->OnTime(now_ns);
    }
    Run();
  }
  void CheckThatAllMayBegin() const {
    for (int a = 0; a < static_cast<int>(nodes.size()); ++a) {
      EXPECT_TRUE(nodes[static_cast<std::size_t>(a)]->formed) << a;
      for (int b = 0; b < a; ++b) EXPECT_TRUE(Linked(a, b)) << a << " and " << b;
    }
  }
  void ExpectAllBegan() const {
    for (const auto& node : nodes) {
      EXPECT_EQ(node->begun, 1) << node->index;
      EXPECT_TRUE(node->failure.ok()) << node->failure.message;
      EXPECT_EQ(node->worlds()->world_count(), 0u);
      EXPECT_EQ(node->worlds()->NextDeadline(), FormingWorlds::kNever);
    }
  }
  void ExpectAllFailed(FailureCode code) const {
    for (const auto& node : nodes) {
      EXPECT_EQ(node->begun, 0) << node->index;
      EXPECT_EQ(node->failure.code, code) << node->index;
      EXPECT_EQ(node->worlds()->world_count(), 0u);
      EXPECT_EQ(node->worlds()->NextDeadline(), FormingWorlds::kNever);
    }
  }

  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<FormedMember> members;
  std::map<int, std::uint64_t> timeouts_ns;  // By nodes' ranks; otherwise 300 s.
  std::set<std::pair<int, int>> links;
  std::map<std::pair<int, int>, std::deque<v1::PeerMessage>> wires;
  std::uint64_t now_ns = 1'000;
};

TEST(FormingWorlds, WayThatNeverComesFailsItEverywhereAndIsNamed) {
  Cluster c(4);
  c.LinkAllBut({{1, 3}});
  c.Form();
  c.Run();
  EXPECT_EQ(c.at(1).worlds()->NextDeadline(), c.now_ns + 5 * kSecondNs);
  c.Wait(5 * kSecondNs - 1);
  EXPECT_TRUE(c.at(1).failure.ok());
  c.Wait(1);
  c.ExpectAllFailed(FailureCode::kUnavailable);
  EXPECT_EQ(c.at(1).failure.rank, 3);
  EXPECT_THAT(c.at(1).failure.message,
              HasSubstr("after 5 s node node-1 has no route to node node-3 (rank 3): connect"));
  c.Link(1, 3);  // Too late: no effect.
  c.Run();
  c.ExpectAllFailed(FailureCode::kUnavailable);
}

// The node of rank 0 had all announcements, but has lost its route before it formed the world.
TEST(FormingWorlds, NodeOfRankZeroNeedsAWayItself) {
  Cluster c(2);
  c.Form();
  c.Wait(5 * kSecondNs);
  EXPECT_EQ(c.at(0).failure.code, FailureCode::kUnavailable);
}

// Node 2 has no route to node 1, so only node 0 can inform it.
TEST(FormingWorlds, RankThatLeavesMeanwhileFailsItAlsoWhereItsNodeHasNoWay) {
  Cluster c(3);
  c.LinkAllBut({{1, 2}});
  c.Form();
  c.Run();
  c.at(1).worlds()->OnLeft(kGroup, 1);
  c.Run();
  c.ExpectAllFailed(FailureCode::kRankLost);
  EXPECT_EQ(c.at(1).failure.rank, 1);
  EXPECT_THAT(c.at(1).failure.message, HasSubstr("rank 1 on node node-1 of group"));
}

// Why: one of eight daemons hangs; the errors must name it, and its ranks' deadlines.
TEST(FormingWorlds, NodeThatNeverJoinsFailsItAtTheFirstDeadlineOfARankAndIsNamed) {
  Cluster c(3);
  c.LinkAllBut({});
  c.timeouts_ns = {{0, 3 * kSecondNs}, {1, 4 * kSecondNs}};
  c.Form();
  c.wires[{0, 2}].clear();
  c.Run();
  c.at(2).formed = true;  // It gets the group differently, for later steps.
  EXPECT_EQ(c.at(0).worlds()->NextDeadline(), c.now_ns + 3 * kSecondNs);
  c.Wait(3 * kSecondNs - 1);
  EXPECT_TRUE(c.at(0).late.ok());
  c.Wait(1);
  c.ExpectAllFailed(FailureCode::kRankLost);
  EXPECT_EQ(c.at(0).late.code, FailureCode::kDeadlineExceeded);
  EXPECT_EQ(c.at(0).late.rank, 2);
  EXPECT_EQ(c.at(0).late.message,
            "job train: after 3 s still to join: node node-2 (rank 2). Check their daemons "
            "(mlxcommctl status)");
  EXPECT_TRUE(c.at(1).late.ok()) << "its deadline comes later";
}

TEST(FormingWorlds, RankIsLateWhereTheNodeOfRankZeroSaysNothing) {
  Cluster c(2);
  c.LinkAllBut({});
  c.timeouts_ns = {{1, 3 * kSecondNs}};
  c.Form();
  c.Deliver(0, 1);
  c.wires.clear();
  c.Wait(3 * kSecondNs);
  EXPECT_EQ(c.at(1).late.code, FailureCode::kDeadlineExceeded);
  EXPECT_EQ(c.at(1).late.rank, 0);
  EXPECT_THAT(c.at(1).late.message, HasSubstr("after 3 s node node-0 (rank 0) has not"));
}

// Why: the rank that gives up first may be on a node that does not know the missing ranks.
TEST(FormingWorlds, NodeOfRankZeroKnowsWhoWasMissingWhenAnotherRankGivesUp) {
  Cluster c(3);
  c.LinkAllBut({});
  c.Form();
  c.wires[{0, 2}].clear();
  c.Run();
  EXPECT_THAT(c.at(0).worlds()->Remove(kGroup), HasSubstr("; still to join: node node-2 (rank 2)"));
  EXPECT_EQ(c.at(1).worlds()->Remove(kGroup), "");
}

// Why: the wait for a route may be longer than a rank wants to wait.
TEST(FormingWorlds, RankIsLateWhileItsNodeLooksForAWay) {
  Cluster c(2);
  c.timeouts_ns = {{0, 3 * kSecondNs}};
  c.Form();
  c.Wait(3 * kSecondNs);
  EXPECT_EQ(c.at(0).late.code, FailureCode::kDeadlineExceeded);
  EXPECT_THAT(c.at(0).late.message, HasSubstr("after 3 s node node-0 has no route to node"));
}

// Messages that no well-behaved node sends.
TEST(FormingWorlds, NobodyJoinsForAnotherOrSaysReadyOutOfTurn) {
  Cluster c(3);
  c.LinkAllBut({{1, 2}});
  c.Form();
  c.Run();
  c.at(0).worlds()->OnJoined(Id(7), kGroup);
  c.at(0).worlds()->OnJoined(Id(1), kGroup);
  c.at(0).worlds()->OnJoined(Id(1), kGroup);
  c.at(1).worlds()->OnJoined(Id(2), kGroup);
  c.at(0).worlds()->OnReady(Id(0), kGroup);
  c.at(1).worlds()->OnReady(Id(0), kGroup);
  c.at(1).worlds()->OnReady(Id(2), kGroup);
  c.at(1).worlds()->OnReady(Id(0), kGroup + 1);
  for (const auto& node : c.nodes) EXPECT_EQ(node->begun, 0);
}

// In whatever order routes and messages arrive, all begin once, or all fail; if a cable stays
// unplugged, all fail.
TEST(FormingWorlds, AllBeginOrAllFailWhateverTheOrder) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t bound) { return random() % bound; };
    Cluster c(1 + static_cast<int>(below(8)));
    std::vector<std::pair<int, int>> later;
    for (int a = 0; a < static_cast<int>(c.nodes.size()); ++a) {
      for (int b = a + 1; b < static_cast<int>(c.nodes.size()); ++b) {
        if (a == 0 || below(2) == 0) {
          c.Link(a, b);
        } else {
          later.emplace_back(a, b);
        }
      }
    }
    std::shuffle(later.begin(), later.end(), random);
    const bool leaves = c.nodes.size() > 1 && below(4) == 0;
    const bool stays_away = !later.empty() && below(3) == 0;
    c.Form();
    if (leaves) c.at(0).worlds()->OnLeft(kGroup, 0);
    for (auto loaded = c.Loaded(); !loaded.empty() || later.size() > (stays_away ? 1u : 0u);
         loaded = c.Loaded()) {
      if (!loaded.empty() && (later.empty() || below(3) != 0)) {
        const auto [from, to] = loaded[below(loaded.size())];
        c.Deliver(from, to);
      } else if (later.size() > (stays_away ? 1u : 0u)) {
        c.Link(later.back().first, later.back().second);
        later.pop_back();
      }
    }
    if (!stays_away && !leaves) {
      c.ExpectAllBegan();
      continue;
    }
    c.Wait(5 * kSecondNs);
    c.ExpectAllFailed(leaves ? FailureCode::kRankLost : FailureCode::kUnavailable);
  }
}

}  // namespace
}  // namespace mlxcomm::jobs::forming_worlds_test
