// Two fabrics in one process with two cables between them: 127.0.0.1 and 127.0.0.2 stand for two
// interfaces. The cables can be cut, and their bytes are counted.
#include "daemon/fabric/tcp_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/fabric/loopback.h"
#include "tests/unit/daemon/fabric/some_keys.h"
#include "tests/unit/daemon/link/status_of.h"
#include "tests/unit/never.h"

namespace mlxcomm::fabric::tcp_fabric_test {
namespace {

using Tcp = asio::ip::tcp;

using testing::HasSubstr;
using testing::IsEmpty;

void OnTwoInterfaces(link::FabricOptions& options) {
  options.listen = {"127.0.0.1:0", "127.0.0.2:0"};
  options.reset_grace_ns = 60'000'000'000;
  options.grace_period_ns = 60'000'000'000;
}

bool HasTwoInterfaces() {
  asio::io_context io;
  asio::error_code error;
  Tcp::acceptor acceptor(io, Tcp::v4());
  acceptor.bind({asio::ip::make_address("127.0.0.2"), 0}, error);
  return !error;
}

// An address without a listener; unlikely to be taken before the test uses it.
std::string FreeAddress(const std::string& ip) {
  asio::io_context io;
  const Tcp::acceptor acceptor(io, {asio::ip::make_address(ip), 0});
  return ip + ":" + std::to_string(acceptor.local_endpoint().port());
}

// All tests run plain and over TLS.
class TcpFabricTest : public FabricTest, public testing::WithParamInterface<link::Security> {
 protected:
  void SetUp() override {
    if (!HasTwoInterfaces()) GTEST_SKIP() << "127.0.0.2 is no address here (ifconfig lo0 alias)";
  }
  static std::vector<v1::RailStatus> RailsOf(const Node& node) {
    for (const v1::LinkStatus& link : link::StatusOfLinks(*node.fabric)) {
      if (link.peer_id().empty() || link.state() != v1::LinkState::up) continue;
      std::vector<v1::RailStatus> up;
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.state() == v1::RailState::up) up.push_back(rail);
      }
      return up;
    }
    return {};
  }
  // a and b with a cable for each of a's interfaces.
  void MakePair(const std::function<void(link::FabricOptions&)>& change = [](link::FabricOptions&) {
  }) {
    idle = true;
    const auto options = [&change](link::FabricOptions& all) {
      OnTwoInterfaces(all);
      all.security.elsewhere = GetParam();
      change(all);
    };
    a = std::make_unique<Node>(io, "a", 1, std::vector<std::string>{}, 7, options);
    for (std::size_t i : {0u, 1u}) {
      cables.push_back(std::make_unique<LoopbackCable>(io, a->address(i)));
    }
    b = std::make_unique<Node>(io, "b", 2,
                               std::vector<std::string>{cables[0]->address(), cables[1]->address()},
                               7, options);
    ASSERT_TRUE(Until([&] { return RailsOf(*a).size() == 2 && RailsOf(*b).size() == 2; }));
  }
  // Both rails, at both ends.
  bool AllProvedWith(std::uint8_t key) const {
    for (const Node* const node : {a.get(), b.get()}) {
      const std::vector<v1::RailStatus> rails = RailsOf(*node);
      const auto is_so = [&](const v1::RailStatus& rail) {
        return rail.key_id() == KeyOf(key).IdText();
      };
      if (rails.size() != 2 || !std::all_of(rails.begin(), rails.end(), is_so)) return false;
    }
    return true;
  }
  static bool HasDetail(const Node& node, const std::string& text) {
    for (const v1::LinkStatus& link : link::StatusOfLinks(*node.fabric)) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.detail().find(text) != std::string::npos) return true;
      }
    }
    return false;
  }
  bool Until(const std::function<bool()>& condition) {
    return RunUntil({a.get(), b.get()}, condition);
  }
  // Large enough to pull a cable in the middle of it.
  void BeginTransfer() {
    source = Pattern(24 * 1024 * 1024);
    target.assign(source.size(), std::byte{});
    SendChunks(*a, *b, source, target);
  }
  bool Carries(const LoopbackCable& cable) {
    const std::uint64_t mark = cable.carried() + 500'000;
    return Until([&] { return cable.carried() > mark || b->data_bytes == source.size(); });
  }
  void ExpectAllArrived() {
    ASSERT_TRUE(Until([&] { return b->data_bytes == source.size() && a->released.size() == 96; }));
    EXPECT_TRUE(source == target);
    EXPECT_THAT(a->lost, IsEmpty());
    EXPECT_THAT(b->lost, IsEmpty());
    EXPECT_EQ(a->up.size(), 1u);
    EXPECT_EQ(b->up.size(), 1u);
  }

  std::unique_ptr<Node> a, b;
  std::vector<std::unique_ptr<LoopbackCable>> cables;
  std::vector<std::byte> source, target;
};

TEST_P(TcpFabricTest, MakesARailForEachInterfaceAndNamesThem) {
  MakePair();
  std::set<std::pair<std::string, std::string>> paths;
  for (const v1::RailStatus& rail : RailsOf(*b)) {
    paths.emplace(rail.local_interface(), rail.remote_interface());
  }
  EXPECT_THAT(paths, testing::ElementsAre(std::pair("127.0.0.1", "127.0.0.1"),
                                          std::pair("127.0.0.1", "127.0.0.2")));
  for (const v1::RailStatus& rail : RailsOf(*a)) {
    EXPECT_EQ(rail.remote_interface(), "127.0.0.1");
    EXPECT_EQ(rail.security(), GetParam() == link::Security::kTls ? "tls" : "plain");
  }
}

TEST_P(TcpFabricTest, ContinuesWhenBothCablesAreCutAndOneIsRestored) {
  MakePair();
  BeginTransfer();
  ASSERT_TRUE(Carries(*cables[0]));
  cables[0]->PullOut();
  ASSERT_TRUE(Carries(*cables[1]));
  cables[1]->PullOut();
  ASSERT_TRUE(Until([&] {
    return link::StatusOfLinks(*a->fabric).at(0).state() == v1::LinkState::grace &&
           link::StatusOfLinks(*b->fabric).at(0).state() == v1::LinkState::grace;
  }));
  EXPECT_TRUE(a->links->IsReachable(b->options.self.id));
  EXPECT_THAT(link::StatusOfLinks(*b->fabric).at(0).detail(),
              HasSubstr("waiting for it to come back"));
  cables[0]->PlugIn();
  ExpectAllArrived();
  cables[1]->PlugIn();
  ASSERT_TRUE(Until([&] { return RailsOf(*a).size() == 2; }));
}

// Why: both sides may list all addresses of each other; in the end each pair of interfaces has one
// rail, and neither side was ever lost.
TEST_P(TcpFabricTest, AgreesOnOneRailAPathWhenBothDialEverything) {
  idle = true;
  const std::string a1 = FreeAddress("127.0.0.1"), a2 = FreeAddress("127.0.0.2");
  b = std::make_unique<Node>(io, "b", 2, std::vector<std::string>{a1, a2}, 7, OnTwoInterfaces);
  a = std::make_unique<Node>(io, "a", 1, std::vector<std::string>{b->address(0), b->address(1)}, 7,
                             [&](link::FabricOptions& options) {
                               OnTwoInterfaces(options);
                               options.listen = {a1, a2};
                             });
  ASSERT_TRUE(Until([&] { return RailsOf(*a).size() == 3 && RailsOf(*b).size() == 3; }));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(SendText(*a, *b, std::to_string(i)).ok());
    ASSERT_TRUE(SendText(*b, *a, std::to_string(i)).ok());
  }
  ASSERT_TRUE(Until([&] { return a->control.size() == 20 && b->control.size() == 20; }));
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(a->control[i], std::to_string(i));
    EXPECT_EQ(b->control[i], std::to_string(i));
  }
  EXPECT_THAT(a->lost, IsEmpty());
  EXPECT_EQ(a->up.size(), 1u);
}

// Why: a host that was set up again has another identity; its earlier ranks are gone, and waiting
// for the grace period would be useless.
TEST_P(TcpFabricTest, LosesANodeWhoseAddressAnswersAsAnother) {
  a = std::make_unique<Node>(io, "a", 1, std::vector<std::string>{}, 7, OnTwoInterfaces);
  const std::string address = a->address();
  b = std::make_unique<Node>(io, "b", 2, std::vector<std::string>{address}, 7, OnTwoInterfaces);
  ASSERT_TRUE(Until([&] { return b->up.size() == 1; }));
  a->fabric->Stop();
  Node again(io, "a", 3, {}, 7, [&](link::FabricOptions& options) { options.listen = {address}; });
  ASSERT_TRUE(RunUntil({b.get(), &again}, [&] { return b->up.size() == 2; }));
  EXPECT_EQ(b->up[1].id, again.options.self.id);
  ASSERT_EQ(b->lost.size(), 1u);
  EXPECT_FALSE(b->links->IsReachable(a->options.self.id));
}

TEST_P(TcpFabricTest, ShowsACableThatIsNotConnectedBesideTheOneThatIs) {
  MakePair();
  cables[1]->PullOut();
  ASSERT_TRUE(Until([&] {
    const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*b->fabric);
    return links.size() == 1 && links[0].rails_size() == 2 &&
           links[0].rails(1).state() == v1::RailState::down && !links[0].rails(1).detail().empty();
  }));
  const v1::RailStatus rail = link::StatusOfLinks(*b->fabric).at(0).rails(1);
  EXPECT_EQ(rail.remote_address(), cables[1]->address());
  EXPECT_EQ(rail.remote_interface(), "127.0.0.2");
  EXPECT_EQ(rail.reason(), v1::LinkReason::no_answer);
}

INSTANTIATE_TEST_SUITE_P(Security, TcpFabricTest,
                         testing::Values(link::Security::kPlain, link::Security::kTls),
                         [](const auto& one) {
                           return one.param == link::Security::kTls ? std::string("Tls") : "Plain";
                         });

// Why: over TLS an attacker between two nodes cannot change a bit of a job; at worst it slows it
// down.
TEST_P(TcpFabricTest, ResendsBytesThatWereChanged) {
  if (GetParam() != link::Security::kTls) return;  // Without TLS this would not be detected.
  MakePair();
  BeginTransfer();
  for (const std::size_t which : {0u, 1u, 0u}) {
    ASSERT_TRUE(Carries(*cables[which]));
    cables[which]->Garble();
  }
  ExpectAllArrived();
  ASSERT_TRUE(Until([&] { return RailsOf(*a).size() == 2 && RailsOf(*b).size() == 2; }));
}

// Why: a node that has only the old key must not stay connected until a cable is pulled; and a job
// must not notice.
// How: each side is the first to retire it; a was dialed, b dials.
TEST_P(TcpFabricTest, ProvesRailsAgainWhenTheOldKeyIsRetired) {
  // A rail that comes back is proved with the key of that moment.
  MakePair([](link::FabricOptions& all) { all.heartbeat_timeout_ns = kNeverNs; });
  std::uint8_t key = 7;
  for (const bool dialed_first : {true, false}) {
    Node& first = dialed_first ? *a : *b;
    Node& second = dialed_first ? *b : *a;
    b->data_bytes = 0;
    a->released.clear();
    BeginTransfer();
    const std::uint8_t old = key++;
    a->fabric->SetKeys(KeysOf(key, old));
    b->fabric->SetKeys(KeysOf(key, old));
    ASSERT_TRUE(Carries(*cables[0]));
    EXPECT_TRUE(AllProvedWith(old));  // Both still accept it.
    first.fabric->SetKeys(KeysOf(key));
    ASSERT_TRUE(Until([&] { return AllProvedWith(key); }));
    second.fabric->SetKeys(KeysOf(key));
    ExpectAllArrived();
    EXPECT_TRUE(AllProvedWith(key));
  }
}

// How: b never learns the new key.
TEST_P(TcpFabricTest, EndsRailsThatCannotBeProvedAgain) {
  MakePair([](link::FabricOptions& all) {
    all.new_proof_timeout_ns = 300'000'000;
    all.grace_period_ns = 100'000'000;
    all.reset_grace_ns = 100'000'000;
  });
  a->fabric->SetKeys(KeysOf(8));
  EXPECT_EQ(RailsOf(*a).size(), 2u);  // Not at once: b might have the new key.
  ASSERT_TRUE(Until([&] { return a->lost.size() == 1 && b->lost.size() == 1; }));
  EXPECT_THAT(a->lost[0], HasSubstr("a key that is no longer accepted"));
  ASSERT_TRUE(Until([&] { return HasDetail(*b, "does not hold this cluster's key"); }));
  b->fabric->SetKeys(KeysOf(8));
  ASSERT_TRUE(Until([&] { return AllProvedWith(8); }));
}

TEST(TcpFabricAddressTest, NamesTheMissingInterface) {
  asio::io_context io;
  link::FabricOptions options;
  options.keys = KeysOf(1);
  options.listen = {"[fe80::1%no-such0]:0"};
  link::LinkEvents events;
  Links links(options, events);
  const absl::Status none = TcpFabric::Create(io, options, links).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("no such interface"));
}

}  // namespace
}  // namespace mlxcomm::fabric::tcp_fabric_test
