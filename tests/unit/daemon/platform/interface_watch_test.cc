// What is told of interfaces that come and go. Cables that are really pulled are in
// tests/lab, where interfaces may be made.
#include "daemon/platform/interface_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

namespace mlxcomm::platform {
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

TEST(InterfaceWatchTest, TellsWhoseCarrierIsLostAndWhoIsGone) {
  EXPECT_THAT(Compare({Interface("a", true), Interface("b", true), Interface("c", false)},
                      {Interface("a", false), Interface("c", false)}),
              ElementsAre(InterfaceChange{"a", Kind::kDown}, InterfaceChange{"b", Kind::kDown}));
}

TEST(InterfaceWatchTest, TellsWhoIsBackOrHasAnotherAddress) {
  EXPECT_THAT(Compare({Interface("a", false), Interface("b", true)},
                      {Interface("a", true), Interface("b", true, {"10.0.0.1"}),
                       Interface("c", true), Interface("d", false)}),
              ElementsAre(InterfaceChange{"a", Kind::kUp}, InterfaceChange{"b", Kind::kUp},
                          InterfaceChange{"c", Kind::kUp}));
}

TEST(InterfaceWatchTest, TellsNothingWhereNothingHasChanged) {
  absl::StatusOr<InterfaceWatch> watch = InterfaceWatch::Create();
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_THAT(watch->Read(), IsEmpty());
  pollfd events = {watch->descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&events, 1, 0), 0);
}

}  // namespace
}  // namespace mlxcomm::platform
