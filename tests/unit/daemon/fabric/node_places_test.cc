// Which node gets a place, and which yields: tables of holders, and one newcomer.
#include "daemon/fabric/node_places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mlxcomm::fabric {
namespace {

using Kind = PlaceAnswer::Kind;

std::vector<PlaceHolder> Holders(std::size_t count, link::NodeClaim claim,
                                 const std::string& interface, bool same_address = false) {
  std::vector<PlaceHolder> holders;
  for (std::size_t i = 0; i < count; ++i) {
    holders.push_back({claim, same_address ? "9.9.9.9" : "9.9.8." + std::to_string(i), interface});
  }
  return holders;
}

std::vector<PlaceHolder> And(std::vector<PlaceHolder> first, const std::vector<PlaceHolder>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// The order in the header: each claim replaces any lower one, the lowest first, and none of its own
// or a higher one.
TEST(NodePlacesTest, TakesThePlaceOfTheLowestClaimOnly) {
  const std::vector<link::NodeClaim> order = {link::NodeClaim::kComes, link::NodeClaim::kFound,
                                              link::NodeClaim::kNamed, link::NodeClaim::kInJob};
  for (const link::NodeClaim has : order) {
    for (const link::NodeClaim wants : order) {
      const std::vector<PlaceHolder> holders =
          And(Holders(2, link::NodeClaim::kInJob, "en0"), Holders(2, has, "en0"));
      const PlaceAnswer answer = FindPlace({wants, "1.1.1.1", "en0"}, holders, 4);
      if (wants > has) {
        EXPECT_EQ(answer.kind, Kind::kYields);
        EXPECT_EQ(answer.who, 3u) << "the newest";
      } else {
        EXPECT_EQ(answer.kind, Kind::kFull);
      }
    }
  }
}

// Why: an attacker behind a switch can also make itself found. The node at the end of a cable must
// not suffer.
TEST(NodePlacesTest, LetsTheFullestInterfaceYieldToOneThatHasFew) {
  const std::vector<PlaceHolder> holders =
      And(Holders(6, link::NodeClaim::kFound, "en0"), Holders(2, link::NodeClaim::kFound, "en5"));
  const PlaceAnswer at_cable = FindPlace({link::NodeClaim::kFound, "1.1.1.1", "en5"}, holders, 8);
  EXPECT_EQ(at_cable.kind, Kind::kYields);
  EXPECT_EQ(at_cable.who, 5u);
  EXPECT_EQ(FindPlace({link::NodeClaim::kFound, "1.1.1.1", "en0"}, holders, 8).kind, Kind::kFull);
  EXPECT_EQ(FindPlace({link::NodeClaim::kFound, "1.1.1.1", ""}, holders, 8).kind, Kind::kFull)
      << "one that is reached through others";
}

TEST(NodePlacesTest, LetsACrowdedAddressYieldUntilItHasAQuarter) {
  const PlaceHolder other{link::NodeClaim::kComes, "1.1.1.1", "en0"};
  std::vector<PlaceHolder> holders = And(Holders(47, link::NodeClaim::kComes, "en0"),
                                         Holders(17, link::NodeClaim::kComes, "en0", true));
  const PlaceAnswer answer = FindPlace(other, holders, 64);
  EXPECT_EQ(answer.kind, Kind::kYields);
  EXPECT_EQ(answer.who, 63u) << "the newest of it";
  holders[answer.who] = other;
  EXPECT_EQ(FindPlace({link::NodeClaim::kComes, "1.1.1.2", "en0"}, holders, 64).kind, Kind::kFull)
      << "a quarter is left to it";
  EXPECT_EQ(FindPlace({link::NodeClaim::kComes, "9.9.9.9", "en0"}, holders, 64).kind,
            Kind::kAddressFull);
  EXPECT_EQ(FindPlace({link::NodeClaim::kFound, "9.9.9.9", "en0"}, holders, 64).kind,
            Kind::kAddressFull);
  EXPECT_EQ(FindPlace({link::NodeClaim::kNamed, "9.9.9.9", "en0"}, holders, 64).kind,
            Kind::kYields);
  EXPECT_EQ(FindPlace({link::NodeClaim::kInJob, "9.9.9.9", "en0"}, holders, 64).kind,
            Kind::kYields);
}

// Why: a configured node, or one in a job, must not lose its place because of others at its
// address.
TEST(NodePlacesTest, LetsOnlyUnwantedNodesOfACrowdedAddressYield) {
  const std::vector<PlaceHolder> holders = And(Holders(30, link::NodeClaim::kNamed, "en0", true),
                                               Holders(34, link::NodeClaim::kComes, "en0"));
  EXPECT_EQ(FindPlace({link::NodeClaim::kComes, "1.1.1.1", "en0"}, holders, 64).kind, Kind::kFull);
}

}  // namespace
}  // namespace mlxcomm::fabric
