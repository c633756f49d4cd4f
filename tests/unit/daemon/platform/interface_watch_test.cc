// Reports about interfaces that come and go; on Linux a virtual cable is really pulled, in the
// test's own network namespace.
#include "daemon/platform/interface_watch.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#if defined(__linux__)
#include "tests/unit/daemon/platform/own_network.h"
#endif

namespace mlxcomm::platform::interface_watch_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = InterfaceChange::Kind;

NetworkInterface Interface(const std::string& name, bool running,
                           std::vector<std::string> addresses = {}) {
  NetworkInterface made;
  made.name = name;
  made.running = running;
  made.addresses = std::move(addresses);
  return made;
}

TEST(InterfaceWatchTest, ReportsLostCarriersAndRemovedInterfaces) {
  EXPECT_THAT(Compare({Interface("a", true), Interface("b", true), Interface("c", false)},
                      {Interface("a", false), Interface("c", false)}),
              ElementsAre(InterfaceChange{"a", Kind::kDown}, InterfaceChange{"b", Kind::kDown}));
}

TEST(InterfaceWatchTest, ReportsRestoredInterfacesAndNewAddresses) {
  EXPECT_THAT(Compare({Interface("a", false), Interface("b", true)},
                      {Interface("a", true), Interface("b", true, {"10.0.0.1"}),
                       Interface("c", true), Interface("d", false)}),
              ElementsAre(InterfaceChange{"a", Kind::kUp}, InterfaceChange{"b", Kind::kUp},
                          InterfaceChange{"c", Kind::kUp}));
}

TEST(InterfaceWatchTest, ReportsNothingIfNothingHasChanged) {
  absl::StatusOr<InterfaceWatch> watch = InterfaceWatch::Create();
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_THAT(watch->Read(), IsEmpty());
  pollfd events = {watch->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&events, 1, 0), 0);
}

#if defined(__linux__)
// Returns the next reported change; gives up after a minute.
std::vector<InterfaceChange> Next(InterfaceWatch& watch) {
  pollfd events = {watch.descriptor(), POLLIN, 0};
  for (int i = 0; i < 60 && ::poll(&events, 1, 1000) >= 0; ++i) {
    std::vector<InterfaceChange> changes = watch.Read();
    if (!changes.empty()) return changes;
  }
  return {};
}

bool IsReported(InterfaceWatch& watch, const InterfaceChange& expected) {
  for (;;) {
    const std::vector<InterfaceChange> changes = Next(watch);
    if (changes.empty()) return false;
    if (std::count(changes.begin(), changes.end(), expected) > 0) return true;
  }
}

// Why: the carrier is also lost if the cable is pulled at the other end.
TEST(InterfaceWatchTest, ReportsACableThatIsPulledAndPluggedIn) {
  if (!EnterOwnNetwork()) GTEST_SKIP() << "no namespaces here";
  if (!Shell("ip link add here type veth peer name there && ip link set here up")) {
    GTEST_SKIP() << "no virtual cables here (iproute2)";
  }
  absl::StatusOr<InterfaceWatch> watch = InterfaceWatch::Create();
  ASSERT_TRUE(watch.ok()) << watch.status();
  const InterfaceChange up{"here", Kind::kUp};
  const InterfaceChange down{"here", Kind::kDown};
  // The system reports a carrier with some delay; addresses appear in between.
  ASSERT_TRUE(Shell("ip link set there up"));
  ASSERT_TRUE(IsReported(*watch, up));
  ASSERT_TRUE(Shell("ip link set there down"));
  ASSERT_TRUE(IsReported(*watch, down));
  ASSERT_TRUE(Shell("ip link set there up"));
  ASSERT_TRUE(IsReported(*watch, up));
  ASSERT_TRUE(Shell("ip link del here"));
  ASSERT_TRUE(IsReported(*watch, down));
}
#endif

}  // namespace
}  // namespace mlxcomm::platform::interface_watch_test
