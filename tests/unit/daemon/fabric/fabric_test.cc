// Two fabrics in one process over loopback: they prove the key, carry frames, place data, and
// continue after a connection is cut.
#include "daemon/link/fabric_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/fabric/handshake.h"
#include "daemon/platform/machine.h"
#include "daemon/rail/text_field.h"
#include "tests/unit/daemon/fabric/loopback.h"
#include "tests/unit/daemon/fabric/some_keys.h"
#include "tests/unit/daemon/link/status_of.h"

namespace mlxcomm::fabric::fabric_test {
namespace {

using Tcp = asio::ip::tcp;

// Why: the side that receives nothing abandons the connection. If it closed it, the other side,
// which receives well, would assume that the daemon had ended, and not wait for the grace period.
TEST_F(FabricTest, HalfOpenConnectionThatHealsCostsAPause) {
  const auto quick = [](link::FabricOptions& options) {
    options.heartbeat_timeout_ns = 300'000'000;
    options.reset_grace_ns = 0;
    options.grace_period_ns = 60'000'000'000;
  };
  Node a(io, "a", 1, {}, 7, quick);
  LoopbackCable cable(io, a.address());
  Node b(io, "b", 2, {cable.address()}, 7, quick);
  const auto both = [&](v1::LinkState::Value state) {
    return RunUntil({&a, &b}, [&] {
      return link::StatusOfLinks(*a.fabric).at(0).state() == state &&
             link::StatusOfLinks(*b.fabric).at(0).state() == state;
    });
  };
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.up.size() == 1 && b.up.size() == 1; }));
  cable.Mute();
  ASSERT_TRUE(SendText(b, a, "sent while it arrives").ok());
  ASSERT_TRUE(SendText(a, b, "sent while it is lost").ok());
  ASSERT_TRUE(both(v1::LinkState::grace));
  EXPECT_THAT(link::StatusOfLinks(*a.fabric).at(0).detail(),
              testing::HasSubstr("nothing received"));
  EXPECT_THAT(link::StatusOfLinks(*b.fabric).at(0).detail(),
              testing::HasSubstr("nothing received"));
  EXPECT_EQ(link::StatusOfLinks(*a.fabric).at(0).reason(), v1::LinkReason::silent);
  cable.PlugIn();
  ASSERT_TRUE(both(v1::LinkState::up));
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.control.size() == 1 && b.control.size() == 1; }));
  EXPECT_THAT(a.lost, testing::IsEmpty());
  EXPECT_THAT(b.lost, testing::IsEmpty());
  EXPECT_EQ(a.up.size(), 1u);
}

// Why: doctor relies on these, and the texts beside them may be reworded.
TEST_F(FabricTest, ReportsTheReasonWhyAnAddressIsNotConnected) {
  const auto free_address = [this] {
    const auto port =
        Tcp::acceptor(io, {asio::ip::address_v4::loopback(), 0}).local_endpoint().port();
    return "127.0.0.1:" + std::to_string(port);
  };
  const std::string unused = free_address();
  const std::string own = free_address();
  Node a(io, "a", 1, {unused, own}, 7,
         [&](link::FabricOptions& options) { options.listen = {own}; });
  const auto reason_of = [&a](const std::string& address) -> v1::LinkReason::Value {
    for (const v1::LinkStatus& link : link::StatusOfLinks(*a.fabric)) {
      if (link.peer() == address) return link.reason();
    }
    return v1::LinkReason::none;
  };
  EXPECT_TRUE(RunUntil({&a}, [&] {
    return reason_of(unused) == v1::LinkReason::connection_refused &&
           reason_of(own) == v1::LinkReason::own_node;
  }));
}

TEST_F(FabricTest, LosesANodeThatStopsAndLinksItAgainAfterARestart) {
  Node a(io, "a", 1);
  Node b(io, "b", 2, {a.address()});
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.up.size() == 1; }));
  b.fabric->Stop();
  ASSERT_TRUE(RunUntil({&a}, [&] { return a.lost.size() == 1; }));
  EXPECT_FALSE(a.links->IsReachable(b.options.self.id));
  EXPECT_EQ(link::StatusOfLinks(*a.fabric).at(0).state(), v1::LinkState::lost);
  EXPECT_EQ(link::StatusOfLinks(*a.fabric).at(0).reason(), v1::LinkReason::reset);
  Node again(io, "b", 2, {a.address()});
  ASSERT_TRUE(RunUntil({&a, &again}, [&] { return a.up.size() == 2; }));
}

// Why: a daemon's last messages (why it stops, that its ranks have left) are queued behind all
// others, and a rail takes only a few frames at a time.
// How: far more than those few, then Stop at once, while the other side runs.
TEST_F(FabricTest, StopSendsWhatIsQueued) {
  asio::io_context other_io;
  Node b(other_io, "b", 2);
  Node a(io, "a", 1, {b.address()});
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.up.size() == 1 && b.up.size() == 1; }));
  constexpr std::size_t kMessages = 300;
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_TRUE(SendText(a, b, std::to_string(i)).ok());
  std::thread stopping([&a] { a.fabric->Stop(); });
  while (b.lost.empty()) {
    other_io.restart();
    other_io.poll();
    b.fabric->Poll();
  }
  stopping.join();
  ASSERT_EQ(b.control.size(), kMessages);
  EXPECT_EQ(b.control.back(), std::to_string(kMessages - 1));
}

TEST_F(FabricTest, StopReturnsEvenIfThePeerReadsNothing) {
  Node a(io, "a", 1);
  Node b(io, "b", 2, {a.address()});
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.up.size() == 1 && b.up.size() == 1; }));
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(SendText(a, b, std::string(200'000, 'x')).ok());
  a.fabric->Stop();
}

// A peer with the key; the test leads it through the handshake, step by step.
struct RawPeer {
  explicit RawPeer(asio::io_context& context, std::uint8_t id = 9)
      : io(context), socket(context), acceptor(context, {asio::ip::address_v4::loopback(), 0}) {
    options.self.id.bytes[0] = id;
    options.cluster = "test";
    options.keys = KeysOf(7);
    options.greeting_timeout_ns = 60'000'000'000;
  }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  }
  void Spawn(asio::awaitable<void> coroutine) {
    asio::co_spawn(io, std::move(coroutine), [](const std::exception_ptr& error) {
      EXPECT_EQ(error, nullptr) << "the hello failed";
    });
  }
  wire::Introduction OwnIntroduction(const std::string& name = "raw") const {
    wire::Introduction own{};
    own.incarnation = incarnation;
    own.session = session;
    own.next_expected = 1;
    rail::PutText(name, own.node_name);
    return own;
  }
  asio::awaitable<void> DialUpToTheVerdict(std::string to) {
    const auto port = static_cast<std::uint16_t>(std::stoi(to.substr(to.rfind(':') + 1)));
    co_await socket.async_connect({asio::ip::address_v4::loopback(), port}, asio::use_awaitable);
    absl::StatusOr<Proved> got = co_await ProveAsDialer(socket, options);
    EXPECT_TRUE(got.ok()) << got.status();
    proved = *got;
    const auto verdict = co_await ReceiveVerdict(socket, proved);
    EXPECT_TRUE(verdict.ok() && *verdict == wire::VerdictCode::kAccepted);
    ++steps;
  }
  asio::awaitable<void> Introduce(wire::Introduction own) {
    EXPECT_TRUE((co_await SendIntroduction(socket, plain, proved, own)).ok());
    EXPECT_TRUE((co_await ReceiveIntroduction(socket, plain, proved)).ok());
    ++steps;
  }
  asio::awaitable<void> Dial(std::string to, std::string name = "raw") {
    co_await DialUpToTheVerdict(std::move(to));
    co_await Introduce(OwnIntroduction(name));
  }
  // Accepts the other side's dial, completes the handshake, and keeps the connection.
  asio::awaitable<void> Accept() {
    accepted = std::make_unique<Tcp::socket>(co_await acceptor.async_accept(asio::use_awaitable));
    absl::StatusOr<Proved> got = co_await CheckDialer(*accepted, options);
    EXPECT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(
        (co_await SendVerdict(*accepted, options, *got, wire::VerdictCode::kAccepted)).ok());
    EXPECT_TRUE((co_await ReceiveIntroduction(*accepted, plain, *got)).ok());
    EXPECT_TRUE((co_await SendIntroduction(*accepted, plain, *got, OwnIntroduction())).ok());
    ++steps;
  }

  asio::io_context& io;
  rail::PlainStream plain;
  link::FabricOptions options;
  Tcp::socket socket;
  Tcp::acceptor acceptor;
  std::unique_ptr<Tcp::socket> accepted;
  Proved proved;
  std::uint64_t session = 77;
  std::uint64_t incarnation = 1;
  int steps = 0;
};

// Why: a node that is upgraded several times in a row ends each daemon's connections soon, and
// growing pauses would add up.
// How: twenty daemons in turn; with growing pauses this would take many minutes.
TEST_F(FabricTest, DialsARestartedDaemonWithoutTheOldBackOff) {
  RawPeer peer(io);
  Node a(io, "a", 1, {peer.address()}, 7, [](link::FabricOptions& options) {
    options.reconnect_delay_min_ns = 1'000'000;
    options.reconnect_delay_max_ns = 3'600'000'000'000;
  });
  for (std::size_t start = 1; start <= 20; ++start) {
    peer.incarnation = start;
    peer.session = 77 + start;
    peer.Spawn(peer.Accept());
    ASSERT_TRUE(RunUntil({&a}, [&] { return a.up.size() == start; })) << start;
    peer.accepted->close();
    ASSERT_TRUE(RunUntil(
        {&a}, [&] { return link::StatusOfLinks(*a.fabric).at(0).state() != v1::LinkState::up; }));
  }
}

TEST_F(FabricTest, ShowsOtherNodesNamesInPrintableForm) {
  Node a(io, "a", 1);
  RawPeer peer(io);
  peer.Spawn(peer.Dial(a.address(), "evil\n\xff[31m"));
  ASSERT_TRUE(RunUntil({&a}, [&] { return a.up.size() == 1; }));
  EXPECT_EQ(a.up[0].name, "evil??[31m");
  EXPECT_EQ(link::StatusOfLinks(*a.fabric).at(0).peer(), "evil??[31m");
}

// Why: a daemon that was just restarted must get in, whichever strangers hold the places.
// How: the strangers never time out; their places are given away one by one, first those of the
// address that holds the most.
TEST_F(FabricTest, GivesTheOldestStrangersPlaceToANewcomer) {
  Node a(io, "a", 1, {}, 7, [](link::FabricOptions& options) {
    options.strangers_max = 3;
    options.greeting_timeout_ns = 3600'000'000'000;
  });
  const auto port = static_cast<std::uint16_t>(std::stoi(a.address().substr(10)));
  std::vector<std::unique_ptr<Tcp::socket>> strangers;
  for (int i = 0; i < 5; ++i) {
    strangers.push_back(std::make_unique<Tcp::socket>(io));
    strangers.back()->connect({asio::ip::address_v4::loopback(), port});
  }
  ASSERT_TRUE(RunUntil({&a}, [&] { return a.fabric->strangers_refused() == 2; }));
  Node b(io, "b", 2, {a.address()});
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.up.size() == 1; }));
  EXPECT_EQ(a.fabric->strangers_refused(), 3u);
  const auto closed = [&](std::size_t i) {
    char any;
    asio::error_code error;
    strangers[i]->non_blocking(true);
    strangers[i]->read_some(asio::buffer(&any, 1), error);
    return error == asio::error::eof || error == asio::error::connection_reset;
  };
  for (std::size_t i = 0; i < strangers.size(); ++i) EXPECT_EQ(closed(i), i < 3) << i;
}

// Why: both sides must know why they are not linked, and the remedy.
TEST_F(FabricTest, RefusesANodeBeyondTheLimitAndAcceptsAConfiguredOne) {
  Node c(io, "c", 3);
  Node a(io, "a", 1, {}, 7, [](link::FabricOptions& options) { options.nodes_max = 1; });
  Node b(io, "b", 2, {a.address()});
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] { return a.up.size() == 1 && b.up.size() == 1; }));
  Node d(io, "d", 4, {a.address()});
  ASSERT_TRUE(RunUntil({&a, &b, &c, &d}, [&] {
    const auto links = link::StatusOfLinks(*d.fabric);
    return a.links->nodes_refused() > 0 && links.size() == 1 && !links[0].detail().empty();
  }));
  const v1::LinkStatus refused = link::StatusOfLinks(*d.fabric).at(0);
  EXPECT_EQ(refused.reason(), v1::LinkReason::too_many);
  EXPECT_THAT(refused.detail(), testing::HasSubstr("1 nodes are linked there already"));
  EXPECT_THAT(refused.detail(), testing::HasSubstr("nodes_max: 1"));
  EXPECT_THAT(refused.detail(), testing::HasSubstr("raise it there"));
  EXPECT_EQ(a.fabric->strangers_refused(), 0u) << "it holds the key";
  EXPECT_EQ(a.up.size(), 1u);
  // A node that this one dials itself replaces one that merely connected.
  ASSERT_TRUE(a.fabric->AddPeer(c.address()).ok());
  ASSERT_TRUE(RunUntil({&a, &b, &c, &d}, [&] { return a.up.size() == 2 && c.up.size() == 1; }));
  EXPECT_EQ(a.up[1].name, "c");
  EXPECT_EQ(a.lost.size(), 1u);
  EXPECT_EQ(a.links->nodes(), 1u);
}

// Why: a useless TLS handshake costs both sides; and only this side can report why there is no
// link.
TEST_F(FabricTest, EndsItsOwnDialIfTheNodeGetsNoPlace) {
  Node c(io, "c", 3);
  Node d(io, "d", 4);
  Node a(io, "a", 1, {c.address()}, 7, [](link::FabricOptions& options) { options.nodes_max = 1; });
  ASSERT_TRUE(RunUntil({&a, &c, &d}, [&] { return a.up.size() == 1 && c.up.size() == 1; }));
  ASSERT_TRUE(a.fabric->AddPeer(d.address()).ok());
  const auto refused = [&] {
    for (const v1::LinkStatus& link : link::StatusOfLinks(*a.fabric)) {
      if (link.peer() == d.address() && link.reason() == v1::LinkReason::too_many)
        return link.detail();
    }
    return std::string();
  };
  ASSERT_TRUE(RunUntil({&a, &c, &d}, [&] { return !refused().empty(); }));
  EXPECT_THAT(refused(), testing::HasSubstr("answers, but 1 nodes are linked here already"));
  EXPECT_EQ(a.links->nodes_refused(), 1u);
  EXPECT_EQ(a.up.size(), 1u);
  EXPECT_TRUE(d.up.empty());
}

// Why: a node that this one dials may have connected first, and then needs no second connection.
TEST_F(FabricTest, RecognizesADialedNodeThatConnectedFirst) {
  Node a(io, "a", 1, {}, 7, [](link::FabricOptions& options) { options.nodes_max = 1; });
  Node b(io, "b", 2, {a.address()});
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.up.size() == 1 && b.up.size() == 1; }));
  ASSERT_TRUE(a.fabric->AddPeer(b.address()).ok());
  ASSERT_TRUE(RunUntil({&a, &b}, [&] {
    const auto links = link::StatusOfLinks(*a.fabric);
    return std::none_of(links.begin(), links.end(),
                        [&](const v1::LinkStatus& link) { return link.peer() == b.address(); });
  }));
  Node d(io, "d", 4);
  ASSERT_TRUE(a.fabric->AddPeer(d.address()).ok());
  ASSERT_TRUE(RunUntil({&a, &b, &d}, [&] { return a.links->nodes_refused() > 0; }));
  EXPECT_TRUE(a.lost.empty()) << "both are dialed, and b was there before";
  EXPECT_EQ(a.up.size(), 1u);
}

// Why: a message must follow the proof, too; a peer that does not send it holds a stranger's place.
TEST_F(FabricTest, BoundsPeersThatProveTheKeyAndThenStaySilent) {
  Node a(io, "a", 1, {}, 7, [](link::FabricOptions& options) {
    options.strangers_max = 3;
    options.greeting_timeout_ns = 3600'000'000'000;
  });
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 5; ++i) {
    peers.push_back(std::make_unique<RawPeer>(io));
    peers.back()->Spawn(peers.back()->DialUpToTheVerdict(a.address()));
    ASSERT_TRUE(RunUntil({&a}, [&] { return peers.back()->steps == 1; }));
  }
  ASSERT_TRUE(RunUntil({&a}, [&] { return a.fabric->strangers_refused() == 2; }));
  EXPECT_EQ(a.links->nodes(), 0u);
}

}  // namespace
}  // namespace mlxcomm::fabric::fabric_test
