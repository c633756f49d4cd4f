// Circuits with fake neighbours: which frames a forwarder passes on or refuses, and which nodes it
// informs when the route breaks.
#include "daemon/fabric/circuit/circuits.h"
#include "proto/status_words.h"
#include "tests/unit/daemon/link/link_events.h"
#include "tests/unit/daemon/link/status_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mlxcomm::fabric::circuits_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Type = wire::FrameType;

NodeId Id(int number) {
  NodeId id;
  id.bytes[0] = static_cast<std::uint8_t>(number);
  return id;
}

struct Sent {
  NodeId to;
  wire::FrameHeader header;
  std::string payload;
};

// Node 5 with the neighbours 4 and 6, and others that a test adds.
struct Node5 : RouterPort {
  bool SendToNeighbour(const NodeId& neighbour, const wire::FrameHeader& header,
                       const std::byte* payload) override {
    if (neighbour != Id(4) && neighbour != Id(6)) return false;
    sent.push_back({neighbour, header,
                    std::string(reinterpret_cast<const char*>(payload), header.payload_bytes)});
    return true;
  }
  link::Link* FindLink(const NodeId& node) const override {
    const auto found = links.find(node);
    return found == links.end() ? nullptr : found->second.get();
  }
  link::Link* LinkTo(const NodeId& node) override {
    if (full) return nullptr;
    std::unique_ptr<link::Link>& link = links[node];
    if (link == nullptr) link = std::make_unique<link::Link>(options, node, listener);
    return link.get();
  }
  bool IsJoining(const NodeId&) const override { return joining; }
  wire::Introduction OwnIntroduction(const link::Link::Standing& standing) const override {
    wire::Introduction own{};
    own.session = standing.session;
    own.known_peer_session = standing.known_peer_session;
    own.next_expected = standing.next_expected;
    own.versions = wire::SpokenVersions();
    return own;
  }
  // The ends of circuits that were opened, with the nodes of the route; 0: it has ended.
  std::vector<std::pair<NodeId, std::size_t>> Events() {
    std::vector<std::pair<NodeId, std::size_t>> taken;
    for (const CircuitEvent& event : circuits.TakeEvents())
      taken.emplace_back(event.node, event.route_nodes);
    return taken;
  }

  void ReceiveRequest(int neighbour, std::uint64_t circuit, const std::vector<int>& route,
                      std::uint32_t count_reported = 0) {
    wire::CircuitOpening opening{};
    opening.introduction.session = session;
    opening.introduction.next_expected = 1;
    opening.introduction.versions = versions;
    opening.node_count =
        count_reported != 0 ? count_reported : static_cast<std::uint32_t>(route.size());
    std::vector<std::byte> payload(sizeof opening + 16 * route.size());
    std::memcpy(payload.data(), &opening, sizeof opening);
    for (std::size_t i = 0; i < route.size(); ++i) {
      std::memcpy(payload.data() + sizeof opening + 16 * i, Id(route[i]).bytes.data(), 16);
    }
    Receive(neighbour, Type::kCircuitOpen, circuit, payload);
  }
  // The destination has accepted it; 6 is the first node of the route.
  void ReceiveAccepted(std::uint64_t circuit, std::uint64_t known_session = 0,
                       const wire::VersionRange& spoken = wire::SpokenVersions()) {
    wire::Introduction theirs{};
    theirs.session = 77;
    theirs.known_peer_session = known_session;
    theirs.next_expected = 1;
    theirs.versions = spoken;
    Receive(6, Type::kCircuitOpened, circuit, std::as_bytes(std::span(&theirs, 1)));
  }
  void Receive(int neighbour, Type type, std::uint64_t circuit,
               std::span<const std::byte> payload = {}, std::uint64_t number = 0,
               std::uint64_t offset = 0) {
    wire::FrameHeader header;
    header.type = type;
    header.group = circuit;
    header.number = number;
    header.offset = offset;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    circuits.OnFrame(Id(neighbour), header, payload, now_ns);
  }
  void ReceiveFrame(int neighbour, std::uint64_t circuit, Type inner) {
    wire::FrameHeader header;
    header.type = inner;
    Receive(neighbour, Type::kCircuitFrame, circuit, std::as_bytes(std::span(&header, 1)));
  }
  void ReceivePiece(int neighbour, std::uint64_t circuit) {
    const std::vector<std::byte> piece(wire::kSlotBytesMax);
    Receive(neighbour, Type::kCircuitFrame, circuit, piece);
  }
  // The messages sent since the last call, as "type>node".
  std::vector<std::string> TakeSent() {
    std::vector<std::string> taken;
    for (const Sent& one : sent) {
      const char* const names[] = {"open", "opened", "frame", "credit", "closed"};
      taken.push_back(
          std::string(
              names[static_cast<int>(one.header.type) - static_cast<int>(Type::kCircuitOpen)]) +
          ">" + std::to_string(one.to.bytes[0]));
    }
    last = sent.empty() ? Sent() : sent.back();
    sent.clear();
    return taken;
  }

  link::FabricOptions options;
  link::LinkEvents listener;
  std::map<NodeId, std::unique_ptr<link::Link>> links;
  std::vector<Sent> sent;
  Sent last;
  bool joining = false;
  bool full = false;           // No more nodes may be linked through others.
  std::uint64_t session = 77;  // The opener's.
  wire::VersionRange versions = wire::SpokenVersions();
  std::uint64_t now_ns = 0;
  Circuits circuits{Id(5), options.random, *this,
                    [](const NodeId& node) { return "n" + std::to_string(node.bytes[0]); }};
};

using testing::ElementsAre;

struct CircuitsTest : testing::Test {
  // The links hold rails of circuits, so they are destroyed first.
  ~CircuitsTest() override { node.links.clear(); }
  Node5 node;
};

TEST_F(CircuitsTest, PassesOnBothWaysBetweenTheTwoNeighbours) {
  node.ReceiveRequest(4, 9, {4, 5, 6, 7});
  EXPECT_THAT(node.TakeSent(), ElementsAre("open>6"));
  node.Receive(6, Type::kCircuitOpened, 9, std::vector<std::byte>(sizeof(wire::Introduction)));
  node.ReceivePiece(4, 9);
  node.ReceivePiece(6, 9);
  node.Receive(6, Type::kCircuitCredit, 9, {}, 1, wire::kSlotBytesMax);
  EXPECT_THAT(node.TakeSent(), ElementsAre("opened>4", "frame>6", "frame>4", "credit>4"));
  EXPECT_EQ(node.circuits.size(), 1u);
  node.Receive(4, Type::kCircuitClosed, 9);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_EQ(node.circuits.size(), 0u);
  // Frames in flight find no circuit, which is not the fault of any node.
  node.ReceivePiece(6, 9);
  node.Receive(6, Type::kCircuitClosed, 9);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
}

// Why: both ends and their users must learn that the number of nodes is the cause, not the route.
TEST_F(CircuitsTest, ReportsTooManyNodesLinkedThroughOthers) {
  node.full = true;
  node.ReceiveRequest(4, 9, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  EXPECT_THAT(node.last.payload, HasSubstr("the limit of nodes that are linked through others"));
  EXPECT_EQ(node.last.header.tag, static_cast<std::uint32_t>(LinkReason::kTooMany));
  EXPECT_FALSE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 1));
  EXPECT_THAT(node.TakeSent(), IsEmpty());
  EXPECT_THAT(node.Events(), ElementsAre(std::pair(Id(7), std::size_t{0})))
      << "the opener is notified, and no node was asked";
  node.full = false;
  EXPECT_TRUE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 2));
  node.TakeSent();
  // The last place may be taken while the circuit is opening.
  node.full = true;
  node.ReceiveAccepted(node.last.header.group);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_EQ(node.circuits.size(), 0u);
  EXPECT_FALSE(node.circuits.IsOpening(Id(7)));
}

// Why: a node that forwards others' operations should stay awake; a circuit between two idle nodes
// carries heartbeats, acknowledgements and daemons' own messages all day.
TEST_F(CircuitsTest, DistinguishesForwardedOperationsFromOtherFrames) {
  node.ReceiveRequest(4, 9, {4, 5, 6, 7});
  node.Receive(6, Type::kCircuitOpened, 9, std::vector<std::byte>(sizeof(wire::Introduction)));
  node.now_ns = 10;
  for (const Type type : {Type::kHeartbeat, Type::kEcho, Type::kAck, Type::kControl}) {
    node.ReceiveFrame(4, 9, type);
  }
  EXPECT_EQ(node.circuits.operations_passed_ns(), 0u);
  for (const Type type :
       {Type::kEager, Type::kData, Type::kGrant, Type::kCredit, Type::kCancelled}) {
    node.now_ns += 10;
    node.ReceiveFrame(6, 9, type);
    EXPECT_EQ(node.circuits.operations_passed_ns(), node.now_ns);
  }
  const std::uint64_t last_ns = node.now_ns;
  node.now_ns += 10;
  node.Receive(4, Type::kCircuitCredit, 9, {}, 1, sizeof(wire::FrameHeader));
  EXPECT_EQ(node.circuits.operations_passed_ns(), last_ns);
}

// Why: an opener may name any route; a route may not loop, or come from the wrong neighbour.
TEST_F(CircuitsTest, RefusesInvalidRoutes) {
  const std::vector<std::vector<int>> routes = {
      {4, 5},           // Neighbours need no circuit.
      {4, 6, 7},        // Does not pass through this node.
      {5, 6, 7},        // Begins here.
      {6, 5, 4},        // Not from the requesting neighbour.
      {4, 5, 6, 4},     // A loop.
      {4, 5, 6, 5, 7},  // A loop through this node.
      {},
  };
  for (const std::vector<int>& route : routes) {
    node.ReceiveRequest(4, 9, route);
    EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
    EXPECT_EQ(node.circuits.size(), 0u);
  }
  node.ReceiveRequest(4, 9, {4, 5, 6}, /*count_reported=*/4);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  node.ReceiveRequest(4, 9, {4, 5, 6}, /*count_reported=*/~0u);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  node.ReceiveRequest(4, 0, {4, 5, 6});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
}

TEST_F(CircuitsTest, RefusesARouteToANodeThatIsNotANeighbour) {
  node.ReceiveRequest(4, 9, {4, 5, 8});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  EXPECT_THAT(node.last.payload, HasSubstr("n5 has no link to node n8"));
  EXPECT_EQ(node.circuits.size(), 0u);
}

// Why: a node that guesses a number must not get into another node's circuit.
TEST_F(CircuitsTest, KeepsACircuitToItsOwnNeighbours) {
  node.ReceiveRequest(4, 9, {4, 5, 6, 7});
  node.ReceiveRequest(6, 9, {6, 5, 4});
  EXPECT_THAT(node.TakeSent(), ElementsAre("open>6", "closed>6"));
  node.ReceivePiece(8, 9);
  node.Receive(8, Type::kCircuitClosed, 9);
  EXPECT_THAT(node.TakeSent(), IsEmpty());
  EXPECT_EQ(node.circuits.size(), 1u);
}

// Why: the window bounds what circuits make a forwarder hold, whatever the ends do.
TEST_F(CircuitsTest, ClosesACircuitThatExceedsTheWindow) {
  node.ReceiveRequest(4, 9, {4, 5, 6, 7});
  node.TakeSent();
  std::uint64_t held = 0;
  while (node.circuits.size() == 1) {
    node.ReceivePiece(4, 9);
    held += wire::kSlotBytesMax;
    ASSERT_LT(held, 2 * wire::kCircuitBytesMax);
  }
  EXPECT_GT(held, wire::kCircuitBytesMax);
  std::vector<std::string> taken = node.TakeSent();
  taken.erase(taken.begin(), taken.end() - 2);
  EXPECT_THAT(taken, ElementsAre("closed>4", "closed>6"));
  EXPECT_THAT(node.last.payload, HasSubstr("window"));
}

TEST_F(CircuitsTest, ClosesACircuitWhoseCreditIsMoreThanWasSent) {
  node.ReceiveRequest(4, 9, {4, 5, 6, 7});
  node.ReceivePiece(4, 9);
  node.TakeSent();
  node.Receive(6, Type::kCircuitCredit, 9, {}, 1, wire::kSlotBytesMax + 1);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4", "closed>6"));
}

// Why: the window counts pieces only; other frames that an end may send without limit would fill a
// forwarder's channel to the other end.
TEST_F(CircuitsTest, ClosesACircuitWhoseEndRepeatsUncountedFrames) {
  node.ReceiveRequest(4, 9, {4, 5, 6, 7});
  node.ReceivePiece(4, 9);
  node.TakeSent();
  node.Receive(6, Type::kCircuitCredit, 9, {}, 0, 0);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4", "closed>6"));
  node.ReceiveRequest(4, 10, {4, 5, 6, 7});
  node.TakeSent();
  const std::vector<std::byte> introduction(sizeof(wire::Introduction));
  node.Receive(6, Type::kCircuitOpened, 10, introduction);
  EXPECT_THAT(node.TakeSent(), ElementsAre("opened>4"));
  node.Receive(6, Type::kCircuitOpened, 10, introduction);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4", "closed>6"));
}

// Why: a node that knows no session names none; continuing with that later would mean continuing
// with any node. And a refused node must not be remembered.
TEST_F(CircuitsTest, RefusesAnOpenerWithoutASessionAndForgetsIt) {
  node.session = 0;
  node.ReceiveRequest(4, 9, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  node.session = 77;
  node.ReceiveRequest(6, 10, {7, 6, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_THAT(node.links, IsEmpty());
  ASSERT_TRUE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 0));
  node.TakeSent();
  const std::uint64_t circuit = node.last.header.group;
  node.Receive(6, Type::kCircuitOpened, circuit,
               std::vector<std::byte>(sizeof(wire::Introduction)));
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_FALSE(node.links[Id(7)]->has_rail());
  EXPECT_EQ(node.circuits.size(), 0u);
}

TEST_F(CircuitsTest, RefusesMoreCircuitsOverANeighbourThanTheLimit) {
  for (std::uint64_t i = 1; i <= Circuits::kCircuitsPerNeighbourMax; ++i) {
    node.ReceiveRequest(4, i, {4, 5, 6, 7});
  }
  EXPECT_EQ(node.circuits.size(), Circuits::kCircuitsPerNeighbourMax);
  node.TakeSent();
  node.ReceiveRequest(6, 1000, {6, 5, 4});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_THAT(node.last.payload, HasSubstr("too many circuits"));
}

// Why: the node behind the gap may be reachable over another route, unless it is the one that
// stopped.
TEST_F(CircuitsTest, ReportsToTheOtherSideWhyTheRouteBroke) {
  node.ReceiveRequest(4, 1, {4, 5, 6, 7});
  node.ReceiveRequest(4, 2, {4, 5, 6});
  node.TakeSent();
  node.circuits.OnNeighbourGone(Id(6), /*reset=*/true, "it closed the connection", 0);
  ASSERT_EQ(node.sent.size(), 2u);
  for (const Sent& sent : node.sent) {
    EXPECT_EQ(sent.to, Id(4));
    EXPECT_EQ(sent.header.type, Type::kCircuitClosed);
    EXPECT_EQ(sent.payload, "node n5 lost its link to node n6: it closed the connection");
    // A reset only if the end itself is gone.
    EXPECT_EQ(sent.header.step, sent.header.group == 2 ? 1 : 0);
    EXPECT_EQ(sent.header.tag, static_cast<std::uint32_t>(LinkReason::kWayLostLink));
  }
  EXPECT_EQ(node.circuits.size(), 0u);
}

TEST_F(CircuitsTest, MakesARailAtTheDestination) {
  node.ReceiveRequest(4, 9, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("opened>4"));
  EXPECT_TRUE(node.links[Id(3)]->has_rail());
  EXPECT_FALSE(node.links[Id(3)]->is_neighbour());
  EXPECT_EQ(node.listener.up.size(), 1u);
  wire::FrameHeader inner;
  inner.type = Type::kGrant;
  inner.sequence = 1;
  std::vector<std::byte> piece(sizeof inner);
  std::memcpy(piece.data(), &inner, sizeof inner);
  node.Receive(4, Type::kCircuitFrame, 9, piece);
  EXPECT_EQ(node.listener.grants.size(), 1u);
  node.Receive(4, Type::kCircuitClosed, 9);
  EXPECT_EQ(node.links[Id(3)]->state(), link::Link::State::kGrace);
  EXPECT_EQ(node.circuits.size(), 0u);
}

// The smaller of two nodes opens; an attempt of the other is a fault or a forgery.
TEST_F(CircuitsTest, RefusesACircuitFromAGreaterNodeOrDuringAJoin) {
  node.ReceiveRequest(6, 9, {7, 6, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  node.joining = true;
  node.ReceiveRequest(4, 9, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  EXPECT_EQ(node.circuits.size(), 0u);
}

TEST_F(CircuitsTest, ReplacesAnOldCircuitWithANewerOne) {
  node.ReceiveRequest(4, 9, {3, 4, 5});
  node.ReceiveRequest(4, 10, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("opened>4", "opened>4", "closed>4"));
  EXPECT_EQ(node.circuits.size(), 1u);
  EXPECT_TRUE(node.links[Id(3)]->has_rail());
}

TEST_F(CircuitsTest, MakesARailWhenTheDestinationHasAccepted) {
  ASSERT_TRUE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 0));
  EXPECT_THAT(node.TakeSent(), ElementsAre("open>6"));
  const std::uint64_t circuit = node.last.header.group;
  EXPECT_TRUE(node.circuits.IsOpening(Id(7)));
  node.ReceiveFrame(6, circuit, Type::kControl);  // Before it was opened: no effect.
  EXPECT_TRUE(node.circuits.IsOpening(Id(7)));
  EXPECT_FALSE(node.links[Id(7)]->has_rail());
  EXPECT_THAT(node.TakeSent(), IsEmpty());
  node.ReceiveAccepted(circuit);
  EXPECT_FALSE(node.circuits.IsOpening(Id(7)));
  EXPECT_TRUE(node.links[Id(7)]->has_rail());
  EXPECT_THAT(node.Events(), ElementsAre(std::pair(Id(7), std::size_t{3})));
  node.ReceiveAccepted(circuit);  // Again: no effect.
  EXPECT_EQ(node.listener.up.size(), 1u);
  EXPECT_THAT(node.listener.control, IsEmpty());
}

// Why: neighbours agree on a version when they connect. Two nodes that meet only through a third
// have not, and a node in between that knows both versions must not join them.
TEST_F(CircuitsTest, RefusesNodesWithoutACommonVersionAndNamesTheRemedy) {
  const wire::VersionRange own = wire::SpokenVersions();
  const auto later = static_cast<std::uint16_t>(own.newest + 1);
  node.versions = {later, later};
  node.ReceiveRequest(4, 9, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  EXPECT_EQ(node.last.header.tag, static_cast<std::uint32_t>(LinkReason::kVersionTooFar));
  EXPECT_TRUE(node.links.empty()) << "it must not take a place";
  node.versions = {0, 0};  // No range at all.
  node.ReceiveRequest(4, 10, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>4"));
  node.versions = {own.newest, later};  // It also speaks the older one.
  node.ReceiveRequest(4, 11, {3, 4, 5});
  EXPECT_THAT(node.TakeSent(), ElementsAre("opened>4"));
  node.links[Id(3)]->ForEachRail(
      [&](const rail::Rail& rail) { EXPECT_EQ(rail.peers_versions(), node.versions); });

  ASSERT_TRUE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 0));
  node.TakeSent();
  node.ReceiveAccepted(node.last.header.group, 0, {later, later});
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_FALSE(node.links[Id(7)]->has_rail());
  EXPECT_THAT(node.Events(), ElementsAre(std::pair(Id(7), std::size_t{0})));
}

// Why: the router opens a route again when it learns that one has ended. A rail that gives up its
// circuit stays with its link until the link is polled, so the link seemed to have a working route.
TEST_F(CircuitsTest, IsNotOpenedOnceItsRailHasGivenItUp) {
  EXPECT_THAT(node.circuits.Opened(), IsEmpty());
  ASSERT_TRUE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 0));
  EXPECT_THAT(node.circuits.Opened(), IsEmpty());
  const std::uint64_t circuit = (node.TakeSent(), node.last.header.group);
  node.ReceiveAccepted(circuit);
  EXPECT_THAT(node.circuits.Opened(), ElementsAre(Id(7)));
  node.circuits.CloseCircuit(circuit, wire::CircuitEnd::kCut, "the first node takes no more");
  EXPECT_TRUE(node.links[Id(7)]->has_rail());
  EXPECT_THAT(node.circuits.Opened(), IsEmpty());
}

// Why: a shorter route replaces a longer one; until it is ready, the longer one serves.
TEST_F(CircuitsTest, OpensAShorterRouteBesideTheOneInUse) {
  ASSERT_TRUE(node.circuits.Open({Id(5), Id(6), Id(8), Id(7)}, 100, 0));
  const std::uint64_t longer = (node.TakeSent(), node.last.header.group);
  node.ReceiveAccepted(longer);
  ASSERT_TRUE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 0));
  EXPECT_FALSE(node.circuits.Open({Id(5), Id(4), Id(7)}, 100, 0));  // One at a time.
  EXPECT_TRUE(node.links[Id(7)]->HasRailOver(rail::RailPath::OfCircuit(longer)));
  const std::uint64_t shorter = (node.TakeSent(), node.last.header.group);
  node.ReceiveAccepted(shorter, node.links[Id(7)]->standing().session);
  EXPECT_FALSE(node.links[Id(7)]->HasRailOver(rail::RailPath::OfCircuit(longer)));
  EXPECT_TRUE(node.links[Id(7)]->HasRailOver(rail::RailPath::OfCircuit(shorter)));
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_EQ(node.circuits.size(), 1u);
  EXPECT_EQ(node.listener.up.size(), 1u);
  EXPECT_THAT(node.listener.lost, IsEmpty());
  EXPECT_THAT(node.Events(),
              ElementsAre(std::pair(Id(7), std::size_t{4}), std::pair(Id(7), std::size_t{0}),
                          std::pair(Id(7), std::size_t{3})));
}

// Why: if all rails between two neighbours end, only one of them may notice and close the circuits
// over them; the other must not keep half a circuit forever.
TEST_F(CircuitsTest, AnswersAFrameOfAnUnknownCircuitWithAClose) {
  node.ReceivePiece(6, 44);
  EXPECT_THAT(node.TakeSent(), ElementsAre("closed>6"));
  EXPECT_EQ(node.last.header.group, 44u);
  node.Receive(6, Type::kCircuitClosed, 44);  // Not answered, or this would never end.
  EXPECT_THAT(node.TakeSent(), IsEmpty());
}

// Why: the link at the end shows the reason, and doctor uses it to distinguish causes from
// consequences. The text beside it contains names, which may be anything.
TEST_F(CircuitsTest, ReportsTheReasonToTheLinkAtTheEnd) {
  struct {
    std::uint32_t reported;
    std::uint16_t step;
    LinkReason known;
  } const cases[] = {
      {static_cast<std::uint32_t>(LinkReason::kWayLostLink), 0, LinkReason::kWayLostLink},
      {static_cast<std::uint32_t>(LinkReason::kPeerStopped), 1, LinkReason::kPeerStopped},
      {77777, 0, LinkReason::kWayEnded},  // Of a future release.
      {77777, 1, LinkReason::kPeerStopped}};
  std::uint64_t circuit = 20;
  for (const auto& one : cases) {
    node.ReceiveRequest(4, ++circuit, {3, 4, 5});
    ASSERT_TRUE(node.links[Id(3)]->has_rail());
    wire::FrameHeader closed;
    closed.type = Type::kCircuitClosed;
    closed.group = circuit;
    closed.step = one.step;
    closed.tag = one.reported;
    node.circuits.OnFrame(Id(4), closed, {}, node.now_ns);
    EXPECT_EQ(node.links[Id(3)]->state(), link::Link::State::kGrace);
    EXPECT_EQ(link::StatusOf(*node.links[Id(3)]).reason(), Reported(one.known)) << one.reported;
  }
}

TEST_F(CircuitsTest, ANodeBetweenPassesTheReasonOn) {
  node.ReceiveRequest(4, 9, {4, 5, 6, 7});
  wire::FrameHeader closed;
  closed.type = Type::kCircuitClosed;
  closed.group = 9;
  closed.tag = static_cast<std::uint32_t>(LinkReason::kWayLostLink);
  node.circuits.OnFrame(Id(6), closed, {}, node.now_ns);
  EXPECT_THAT(node.TakeSent(), ElementsAre("open>6", "closed>4"));
  EXPECT_EQ(node.last.header.tag, closed.tag);
}

TEST_F(CircuitsTest, GivesUpARequestThatIsNotAnsweredInTime) {
  ASSERT_TRUE(node.circuits.Open({Id(5), Id(6), Id(7)}, 100, 0));
  EXPECT_EQ(node.circuits.deadline_ns(), 100u);
  node.circuits.OnTime(99);
  EXPECT_EQ(node.circuits.size(), 1u);
  node.circuits.OnTime(100);
  EXPECT_THAT(node.TakeSent(), ElementsAre("open>6", "closed>6"));
  EXPECT_THAT(node.Events(), ElementsAre(std::pair(Id(7), std::size_t{0})));
  EXPECT_EQ(node.circuits.size(), 0u);
}

}  // namespace
}  // namespace mlxcomm::fabric::circuits_test
