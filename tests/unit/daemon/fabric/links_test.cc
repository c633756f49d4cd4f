// Two nodes' Links with fake rails and a clock that the test advances: joins over several paths, in
// any order of dials and with incomplete knowledge on either side.
#include "daemon/fabric/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/rail/status_reason.h"
#include "tests/unit/daemon/fabric/paper_rails.h"
#include "tests/unit/daemon/link/status_of.h"

namespace mlxcomm::fabric::links_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// One dial, in steps that may be apart in time.
struct Dial {
  std::size_t dialer = 0;
  std::string cable;
  int step = 0;
  bool closed = false;  // By the acceptor.
  Links::RailMark mark;
  std::optional<Links::Join> of_dialer, of_acceptor;
  std::shared_ptr<Connection> connection = std::make_shared<Connection>();
  bool acceptor_done = false;
  bool dialer_done = false;
  bool over = false;
};

class LinksTest : public testing::Test {
 protected:
  // As seen by side 0, on the left. The two ends of a cable have different names.
  static rail::RailPath PathOf(const std::string& cable, std::size_t side) {
    const std::string left = "l" + cable, right = "r" + cable;
    return side == 0 ? rail::RailPath{left, right} : rail::RailPath{right, left};
  }
  Daemon& Of(std::size_t side) { return *sides[side]; }
  Links& LinksOf(std::size_t side) { return *sides[side]->links; }
  NodeId IdOf(std::size_t side) { return sides[side]->id(); }
  bool HasRail(std::size_t side, const std::string& cable) {
    return LinksOf(side).HasRailOver(IdOf(1 - side), PathOf(cable, side));
  }
  static absl::Status Outcome(const absl::StatusOr<Links::Join>& join) { return join.status(); }

  void PollBoth() {
    now_ns += 1000;
    for (const std::size_t side : {0u, 1u}) LinksOf(side).Poll(now_ns);
  }
  void FinishAsAcceptor(Dial& dial) {
    const std::size_t side = 1 - dial.dialer;
    auto rail = std::make_unique<PaperRail>(dial.connection, side, now_ns);
    outcome = LinksOf(side).Finish(*dial.of_acceptor, std::move(rail), dial.of_dialer->own, now_ns);
    dial.acceptor_done = true;
  }
  void FinishAsDialer(Dial& dial) {
    const bool gone = dial.acceptor_done && dial.connection->ends[1 - dial.dialer] == nullptr;
    auto rail = std::make_unique<PaperRail>(dial.connection, dial.dialer, now_ns);
    if (gone) rail->GoDown(rail::DownCause::kReset);
    outcome = LinksOf(dial.dialer)
                  .Finish(*dial.of_dialer, std::move(rail), dial.of_acceptor->own, now_ns);
    dial.dialer_done = true;
  }
  // The next step; `acceptor_first` decides when either side may finish first.
  void Step(Dial& dial, bool acceptor_first) {
    const std::size_t side = dial.dialer;
    const NodeId dialer = IdOf(side), acceptor = IdOf(1 - side);
    const rail::RailPath here = PathOf(dial.cable, side), there = PathOf(dial.cable, 1 - side);
    switch (dial.step++) {
      case 0:
        dial.over = LinksOf(1 - side).Judge(dialer, there) != wire::VerdictCode::kAccepted;
        dial.mark = LinksOf(1 - side).MarkOf(dialer, there);
        return;
      case 1: {
        absl::StatusOr<Links::Join> join = LinksOf(side).BeginAsDialer(acceptor, here);
        outcome = join.status();
        dial.over = !join.ok();
        if (join.ok()) dial.of_dialer = *std::move(join);
        return;
      }
      case 2: {
        absl::StatusOr<Links::Join> join = LinksOf(1 - side).BeginAsAcceptor(
            dialer, there, dial.of_dialer->own, dial.mark, now_ns);
        outcome = join.status();
        dial.closed = !join.ok();
        if (join.ok()) dial.of_acceptor = *std::move(join);
        return;
      }
      default: break;
    }
    if (dial.closed) {
      LinksOf(side).Abandon(*dial.of_dialer);
      dial.over = true;
    } else if (dial.dialer_done || (acceptor_first && !dial.acceptor_done)) {
      FinishAsAcceptor(dial);
    } else {
      FinishAsDialer(dial);
    }
    dial.over = dial.over || (dial.acceptor_done && dial.dialer_done);
  }
  // Resets the connection, at any point of its join.
  void Break(Dial& dial) {
    const std::size_t side = dial.dialer;
    if (dial.of_dialer && !dial.dialer_done) LinksOf(side).Abandon(*dial.of_dialer);
    if (dial.of_acceptor && !dial.acceptor_done) LinksOf(1 - side).Abandon(*dial.of_acceptor);
    for (PaperRail* const end : dial.connection->ends) {
      if (end != nullptr) end->GoDown(rail::DownCause::kReset);
    }
    dial.over = true;
  }
  // A whole dial, with nothing in between.
  std::shared_ptr<Connection> Connect(std::size_t dialer, const std::string& cable) {
    Dial dial;
    dial.dialer = dialer;
    dial.cable = cable;
    while (!dial.over) Step(dial, true);
    PollBoth();
    return dial.connection;
  }
  std::uint64_t SessionOf(std::size_t side, std::size_t peer_side) {
    Links::Join join = *LinksOf(side).BeginAsDialer(IdOf(peer_side), {"probe", "probe"});
    LinksOf(side).Abandon(join);
    return join.standing.session;
  }
  void SendText(std::size_t side, const std::string& text) {
    ASSERT_TRUE(Of(side).Say(Of(1 - side), text).ok());
  }

  std::array<std::unique_ptr<Daemon>, 2> sides = {std::make_unique<Daemon>(0),
                                                  std::make_unique<Daemon>(1)};
  std::uint64_t now_ns = 1;
  absl::Status outcome;
};

TEST_F(LinksTest, RecognizesItself) {
  EXPECT_EQ(LinksOf(0).Judge(IdOf(0), PathOf("1", 0)), wire::VerdictCode::kSelf);
}

// Why: two joins at once could agree on different sessions.
TEST_F(LinksTest, JoinsOnePathAtATimeUntilSessionsAreAgreedThenAllAtOnce) {
  const absl::StatusOr<Links::Join> first = LinksOf(0).BeginAsDialer(IdOf(1), PathOf("1", 0));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsAborted(LinksOf(0).BeginAsDialer(IdOf(1), PathOf("2", 0)).status()));
  LinksOf(0).Abandon(*first);
  Connect(0, "1");
  EXPECT_TRUE(LinksOf(0).BeginAsDialer(IdOf(1), PathOf("2", 0)).ok());
  EXPECT_TRUE(LinksOf(0).BeginAsDialer(IdOf(1), PathOf("3", 0)).ok());
  EXPECT_TRUE(absl::IsAborted(LinksOf(0).BeginAsDialer(IdOf(1), PathOf("3", 0)).status()));
}

// Why: this is the essential property. Both nodes dial over every path, at the same time or not;
// messages may be delayed in any way, and connections break, even in the middle of a join, when
// only one side believes in it.
// How: many random orders; a side that lacks a rail over one of its paths dials again when its dial
// is over. In the end both have the same connection over each path, and no node was ever lost.
TEST_F(LinksTest, AgreesOnTheSameRailsInEveryOrderOfDials) {
  for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    random.discard(seed % 7);
    sides = {std::make_unique<Daemon>(0), std::make_unique<Daemon>(1)};
    const std::vector<std::string> cables = {"1", "2", "3"};
    std::vector<Dial> dials;
    std::vector<std::pair<std::size_t, std::string>> dialers;
    for (const std::string& cable : cables) {
      const auto who = random() % 3;
      if (who != 0) dialers.emplace_back(0, cable);
      if (who != 1) dialers.emplace_back(1, cable);
    }
    const auto all_linked = [&] {
      return std::all_of(cables.begin(), cables.end(), [&](const std::string& cable) {
        return HasRail(0, cable) && HasRail(1, cable);
      });
    };
    int breaks = static_cast<int>(random() % 6);
    int steps = 0;
    while (!(all_linked() && dials.empty()) && ++steps < 20'000) {
      for (const auto& [side, cable] : dialers) {
        const bool dialing = std::any_of(dials.begin(), dials.end(),
                                         [side = side, &cable = cable](const Dial& dial) {
                                           return dial.dialer == side && dial.cable == cable;
                                         });
        if (dialing || HasRail(side, cable) || random() % 4 != 0) continue;
        dials.emplace_back().dialer = side;
        dials.back().cable = cable;
      }
      if (!dials.empty()) {
        const std::size_t at = random() % dials.size();
        if (random() % 8 == 0 && breaks-- > 0) {
          Break(dials[at]);
        } else {
          Step(dials[at], random() % 2 == 0);
        }
        if (dials[at].over) dials.erase(dials.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (random() % 3 == 0) PollBoth();
    }
    PollBoth();
    ASSERT_TRUE(all_linked());
    for (const std::size_t side : {0u, 1u}) {
      ASSERT_THAT(Of(side).lost, IsEmpty());
      ASSERT_EQ(Of(side).up.size(), 1u);
    }
    SendText(0, "over whichever");
    SendText(1, "and back");
    PollBoth();
    PollBoth();
    ASSERT_THAT(Of(1).control, ElementsAre("over whichever"));
    ASSERT_THAT(Of(0).control, ElementsAre("and back"));
  }
}

// Why: a host that vanished silently leaves a connection that one side thinks is alive.
// How: the cable is cut so that only one side notices; that side dials again.
TEST_F(LinksTest, ANewConnectionReplacesAHalfOpenOneOfItsPath) {
  for (const std::size_t dialer : {0u, 1u}) {
    sides = {std::make_unique<Daemon>(0), std::make_unique<Daemon>(1)};
    const std::shared_ptr<Connection> dead = Connect(0, "1");
    Connect(0, "2");
    dead->cut = true;
    dead->ends[dialer]->GoDown(rail::DownCause::kCut);
    PollBoth();
    ASSERT_FALSE(HasRail(dialer, "1"));
    ASSERT_TRUE(HasRail(1 - dialer, "1"));  // It has not noticed.
    const std::shared_ptr<Connection> fresh = Connect(dialer, "1");
    EXPECT_EQ(dead->ends[1 - dialer], nullptr);
    EXPECT_NE(fresh->ends[0], nullptr);
    EXPECT_NE(fresh->ends[1], nullptr);
    EXPECT_THAT(Of(0).lost, IsEmpty());
    EXPECT_THAT(Of(1).lost, IsEmpty());
  }
}

// Why: the same with no other rail left: the channel continues.
TEST_F(LinksTest, ContinuesOverAConnectionThatReplacesTheOnlyOne) {
  const std::shared_ptr<Connection> dead = Connect(0, "1");
  dead->cut = true;
  SendText(1, "into the void");
  PollBoth();
  dead->ends[0]->GoDown(rail::DownCause::kCut);
  PollBoth();
  Connect(0, "1");
  PollBoth();
  EXPECT_THAT(Of(0).control, ElementsAre("into the void"));
  EXPECT_THAT(Of(1).lost, IsEmpty());
}

// Why: no rail of the old run may serve the new one, over whichever path it comes.
// How: the machine lost power, so the old rails end only by silence; until then it tries again.
TEST_F(LinksTest, StartsOverWithARestartedPeerOnceOldRailsAreSilent) {
  const std::shared_ptr<Connection> first = Connect(0, "1");
  const std::shared_ptr<Connection> second = Connect(0, "2");
  first->cut = second->cut = true;
  sides[1] = std::make_unique<Daemon>(1, /*life=*/1);
  Connect(1, "1");
  EXPECT_TRUE(absl::IsAborted(outcome)) << outcome;
  EXPECT_THAT(Of(0).lost, IsEmpty());
  const std::uint64_t silent_ns = now_ns + 2 * Of(0).options.heartbeat_timeout_ns;
  while ((now_ns = LinksOf(0).deadline_ns()) < silent_ns) LinksOf(0).OnTime(now_ns);
  EXPECT_FALSE(HasRail(0, "1") || HasRail(0, "2"));
  Connect(1, "1");
  ASSERT_EQ(Of(0).up.size(), 2u);
  EXPECT_EQ(Of(0).up[1].incarnation, 111u);
  ASSERT_EQ(Of(0).lost.size(), 1u);
  EXPECT_THAT(Of(0).lost[0], HasSubstr("restarted"));
  EXPECT_FALSE(HasRail(0, "2"));
  EXPECT_GT(Of(0).links->rails_gone(), 0u)
      << "those of the other cable, whose dialer waits for this";
  Connect(1, "2");
  EXPECT_TRUE(HasRail(0, "2") && HasRail(1, "2"));
  EXPECT_EQ(Of(0).lost.size(), 1u);
  EXPECT_THAT(Of(1).lost, IsEmpty());
}

// Why: the daemon of a copied disk would take the link from the original, and jobs would fail again
// and again.
// How: it dials as soon as it is refused; the original's heartbeats continue.
TEST_F(LinksTest, KeepsTheLinkWithTheFirstOfTwoMachinesWithOneId) {
  const std::shared_ptr<Connection> first = Connect(1, "1");
  const std::unique_ptr<Daemon> original = std::move(sides[1]);
  for (std::uint64_t life = 1; life <= 3; ++life) {
    sides[1] = std::make_unique<Daemon>(1, life);
    for (const std::size_t dialer : {1u, 1u, 0u, 1u}) {
      Connect(dialer, dialer == 0 ? "2" : "1");
      EXPECT_TRUE(absl::IsAborted(outcome)) << outcome;
      const std::uint64_t received_ns = now_ns + 2 * Of(0).options.heartbeat_interval_ns;
      while ((now_ns = LinksOf(0).deadline_ns()) < received_ns) LinksOf(0).OnTime(now_ns);
    }
    EXPECT_EQ(rail::ReasonOf(outcome), LinkReason::kSameId) << outcome;
  }
  EXPECT_THAT(Of(0).lost, IsEmpty());
  ASSERT_EQ(Of(0).up.size(), 1u);
  EXPECT_EQ(Of(0).up[0].incarnation, 110u);
  EXPECT_NE(first->ends[0], nullptr);
  EXPECT_EQ(Of(0).same_ids, 1);  // Reported once, and shown by status.
  EXPECT_TRUE(link::StatusOfLinks(LinksOf(0)).at(0).has_same_id_ms_ago());
}

// Why: an introduction from before the two agreed on sessions elsewhere is stale; believing it
// would lose a node that works.
TEST_F(LinksTest, IgnoresAnIntroductionFromBeforeTheSessionsWereAgreed) {
  Dial stale;
  stale.dialer = 1;
  stale.cable = "2";
  Step(stale, true);
  Step(stale, true);  // b has introduced itself: it knows no session of a.
  Dial other;
  other.dialer = 0;
  other.cable = "1";
  while (!other.over) Step(other, true);
  PollBoth();
  ASSERT_TRUE(HasRail(0, "1") && HasRail(1, "1"));
  while (!stale.over) Step(stale, true);
  PollBoth();
  EXPECT_THAT(Of(0).lost, IsEmpty());
  EXPECT_THAT(Of(1).lost, IsEmpty());
  EXPECT_TRUE(HasRail(0, "1") && HasRail(1, "1"));
}

TEST_F(LinksTest, TakesARailDownAtOnceWhenItsInterfaceIsDown) {
  Connect(0, "1");
  Connect(0, "2");
  LinksOf(0).OnInterfaceDown("l1", now_ns);
  EXPECT_FALSE(HasRail(0, "1"));
  EXPECT_TRUE(HasRail(0, "2"));
  EXPECT_EQ(Of(0).links->rails_gone(), 1u);
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).at(0).state(), v1::LinkState::up);
  LinksOf(0).OnInterfaceDown("l2", now_ns);
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).at(0).state(), v1::LinkState::grace);
  EXPECT_THAT(link::StatusOfLinks(LinksOf(0)).at(0).detail(), HasSubstr("l2"));
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).at(0).reason(), v1::LinkReason::interface_down);
  EXPECT_THAT(Of(0).lost, IsEmpty());
}

// Why: plans need a path's latency soon, which is the minimum of several heartbeats; later an idle
// daemon should cost nothing; and silence must be detected.
// How: the clock moves from deadline to deadline; heartbeats are counted.
TEST_F(LinksTest, SendsHeartbeatsOftenAtFirstThenRarelyAndDetectsSilence) {
  const std::shared_ptr<Connection> connection = Connect(0, "1");
  const auto beats_in = [&](std::uint64_t ns) {
    const int before = connection->beats[0];
    const std::uint64_t end_ns = now_ns + ns;
    while (LinksOf(0).deadline_ns() <= end_ns) {
      now_ns = LinksOf(0).deadline_ns();
      LinksOf(0).OnTime(now_ns);
    }
    now_ns = end_ns;
    return connection->beats[0] - before;
  };
  const std::uint64_t interval_ns = Of(0).options.heartbeat_interval_ns;
  EXPECT_GE(beats_in(200'000'000), 8);
  beats_in(2 * interval_ns);
  EXPECT_EQ(beats_in(20 * interval_ns), 10);
  // A side that is awake anyway is early, but not at once.
  now_ns = LinksOf(0).deadline_ns();
  LinksOf(0).OnTime(now_ns);
  const int before = connection->beats[0];
  EXPECT_FALSE(LinksOf(0).MayTick(now_ns + interval_ns / 2));
  EXPECT_TRUE(LinksOf(0).MayTick(now_ns + interval_ns));
  LinksOf(0).OnTime(now_ns += interval_ns);
  EXPECT_EQ(connection->beats[0], before + 1);
  connection->answers = false;
  beats_in(Of(0).options.heartbeat_timeout_ns - interval_ns);
  EXPECT_TRUE(HasRail(0, "1"));
  beats_in(2 * interval_ns);
  EXPECT_FALSE(HasRail(0, "1"));
}

// Why: a side that asks seldom detects a silent rail later.
TEST_F(LinksTest, AsksOftenWhileARailIsSilent) {
  Connect(0, "1");
  const std::shared_ptr<Connection> silent = Connect(0, "2");
  const std::uint64_t interval_ns = Of(0).options.heartbeat_interval_ns;
  const auto tick = [&] {
    const std::uint64_t due_ns = now_ns = LinksOf(0).deadline_ns();
    LinksOf(0).OnTime(now_ns);
    return LinksOf(0).deadline_ns() - due_ns;
  };
  while (tick() < 2 * interval_ns) continue;  // While the rails are new.
  silent->answers = false;
  tick();
  tick();
  ASSERT_TRUE(HasRail(0, "2"));
  while (HasRail(0, "2")) EXPECT_LE(tick(), interval_ns);
}

// Why: if a daemon is stopped, or its host has vanished, nothing closes the connection.
TEST_F(LinksTest, TakesASilentRailDownAndLosesTheNodeAfterItsGrace) {
  Connect(0, "1")->answers = false;
  const link::FabricOptions& options = Of(0).options;
  std::uint64_t gone_ns = 0;
  for (int i = 0; i < 100 && Of(0).lost.empty(); ++i) {
    now_ns = LinksOf(0).deadline_ns();
    LinksOf(0).OnTime(now_ns);
    if (gone_ns == 0 && !HasRail(0, "1")) gone_ns = now_ns;
  }
  EXPECT_GT(gone_ns, options.heartbeat_timeout_ns);
  EXPECT_LE(gone_ns, options.heartbeat_timeout_ns + 2 * options.heartbeat_interval_ns);
  ASSERT_EQ(Of(0).lost.size(), 1u);
  EXPECT_THAT(Of(0).lost[0], HasSubstr("nothing received"));
  EXPECT_EQ(now_ns, gone_ns + options.grace_period_ns);
}

TEST_F(LinksTest, AcceptsThatANodeHasStoppedOnlyAfterAReset) {
  const std::shared_ptr<Connection> connection = Connect(0, "1");
  LinksOf(0).OnGone(IdOf(1), "refused");
  EXPECT_THAT(Of(0).lost, IsEmpty());
  connection->ends[0]->GoDown(rail::DownCause::kCut);
  PollBoth();
  LinksOf(0).OnGone(IdOf(1), "refused");
  EXPECT_THAT(Of(0).lost, IsEmpty());
  const std::shared_ptr<Connection> again = Connect(0, "1");
  again->ends[0]->GoDown(rail::DownCause::kReset);
  PollBoth();
  LinksOf(0).OnGone(IdOf(1), "refused");
  EXPECT_THAT(Of(0).lost, ElementsAre("refused"));
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).at(0).reason(), v1::LinkReason::peer_stopped);
}

TEST_F(LinksTest, ReportsThatALinkHasTheMaximumOfRails) {
  for (std::size_t i = 0; i < link::Link::kRailsMax; ++i) Connect(0, std::to_string(i));
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).at(0).rails_size(),
            static_cast<int>(link::Link::kRailsMax));
  const absl::Status none = LinksOf(0).BeginAsDialer(IdOf(1), PathOf("x", 0)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
}

// Why: a dialer waits until its rail has ended; without a notification it waits forever.
// How: a half-open connection yields to one that then fails.
TEST_F(LinksTest, ReportsARailThatYieldedToAFailedConnection) {
  const std::shared_ptr<Connection> dead = Connect(0, "1");
  dead->cut = true;
  dead->ends[1]->GoDown(rail::DownCause::kCut);
  PollBoth();
  ASSERT_EQ(Of(0).links->rails_gone(), 0u);
  Dial dial;
  dial.dialer = 1;
  dial.cable = "1";
  for (int step = 0; step < 3; ++step) Step(dial, true);
  Break(dial);
  PollBoth();
  EXPECT_FALSE(HasRail(0, "1"));
  EXPECT_EQ(Of(0).links->rails_gone(), 1u);
}

// Why: nodes get new ids when they are set up again; a daemon that runs for a year must neither
// remember them all nor run out of places.
TEST_F(LinksTest, ForgetsANodeThatWasLostLongAgo) {
  Connect(0, "1")->answers = false;
  Of(0).Pass(60, now_ns);
  ASSERT_EQ(Of(0).lost.size(), 1u);
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).size(), 1u);  // For status.
  Of(0).Pass(600, now_ns);
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).size(), 0u);
  EXPECT_FALSE(LinksOf(0).IsReachable(IdOf(1)));
  sides[1] = std::make_unique<Daemon>(1, /*life=*/1);
  Connect(1, "1");
  EXPECT_TRUE(HasRail(0, "1") && HasRail(1, "1"));
  EXPECT_EQ(Of(0).up.size(), 2u);
}

TEST_F(LinksTest, ForgetsNoNodeThatIsPresentOrJoins) {
  Connect(0, "1");
  const absl::StatusOr<Links::Join> join = LinksOf(0).BeginAsDialer(Stranger(1), {"x", "y"});
  ASSERT_TRUE(join.ok());
  Of(0).Pass(1500, now_ns);
  EXPECT_TRUE(HasRail(0, "1"));
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).size(), 2u);
  auto rail = std::make_unique<PaperRail>(std::make_shared<Connection>(), 0, now_ns);
  EXPECT_TRUE(LinksOf(0).Finish(*join, std::move(rail), StrangersIntroduction(), now_ns).ok());
  EXPECT_TRUE(LinksOf(0).IsReachable(Stranger(1)));
}

// Why: a key holder can invent any number of nodes. Their links are bounded and soon forgotten, so
// that later nodes find a place at once.
TEST_F(LinksTest, ForgetsLostNodesSoonIfManyAreRemembered) {
  const std::size_t most = Of(0).options.nodes_max;
  for (std::size_t i = 0; i < 20 * most; ++i) {
    const auto join = LinksOf(0).BeginAsDialer(Stranger(static_cast<int>(i)), {"x", "y"});
    if (join.ok()) LinksOf(0).Abandon(*join);
  }
  EXPECT_EQ(link::StatusOfLinks(LinksOf(0)).size(), 3 * most + Links::kFarNodesMax);
  Of(0).Pass(3, now_ns);
  EXPECT_LE(link::StatusOfLinks(LinksOf(0)).size(), most);
  Connect(0, "1");
  EXPECT_TRUE(HasRail(0, "1"));
}

}  // namespace
}  // namespace mlxcomm::fabric::links_test
