// Fabrics in chains and rings over loopback: nodes that are no neighbours reach each
// other through those in between, and nothing is lost when the way changes.
#include "daemon/fabric/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/daemon/fabric/loopback.h"

namespace mlxcomm::fabric {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RouterTest : public FabricTest {
 protected:
  static bool Reaches(const Node& from, const Node& to) {
    return from.fabric->IsReachable(to.options.self.id);
  }
  static LinkSnapshot LinkOf(const Node& from, const Node& to) {
    for (LinkSnapshot& link : from.fabric->Snapshot()) {
      if (link.peer_id == to.options.self.id) return std::move(link);
    }
    return {};
  }
  static std::vector<std::byte> Pattern(std::size_t bytes) {
    std::vector<std::byte> pattern(bytes);
    for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * 7 >> 3);
    return pattern;
  }
};

// a - b - c: what this file is about at its smallest.
TEST_F(RouterTest, ReachesThroughANeighbourWhoIsNone) {
  Node a(io, "a", 1);
  Node b(io, "b", 2, {a.address()});
  Node c(io, "c", 3, {b.address()});
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] { return a.up.size() == 2 && c.up.size() == 2; }));
  EXPECT_EQ(a.up[1].name, "c");
  EXPECT_EQ(a.up[1].software_version, "test");
  EXPECT_EQ(a.up[1].incarnation, c.options.self.incarnation);
  EXPECT_EQ(b.up.size(), 2u);
  EXPECT_EQ(LinkOf(a, c).detail, "reached through b");
  EXPECT_EQ(LinkOf(a, c).rails.at(0).transport, "route");
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(SendText(a, c, "to c " + std::to_string(i)).ok());
    ASSERT_TRUE(SendText(c, a, std::string(100'000, 'x') + std::to_string(i)).ok());
  }
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] {
    return a.control.size() == 300 && c.control.size() == 300;
  }));
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(c.control[i], "to c " + std::to_string(i));
    EXPECT_EQ(a.control[i], std::string(100'000, 'x') + std::to_string(i));
  }
  EXPECT_THAT(b.control, IsEmpty());
}

TEST_F(RouterTest, CarriesDataBothWaysFarBeyondTheWindow) {
  Node a(io, "a", 1);
  Node b(io, "b", 2, {a.address()});
  Node c(io, "c", 3, {b.address()});
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] { return a.up.size() == 2 && c.up.size() == 2; }));
  const std::vector<std::byte> source = Pattern(8 * 1024 * 1024 + 12);
  std::vector<std::byte> to_c(source.size()), to_a(source.size());
  SendChunks(a, c, source, to_c, 1024 * 1024);
  SendChunks(c, a, source, to_a, 1024 * 1024);
  idle = true;
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] {
    return c.data_bytes == source.size() && a.data_bytes == source.size() &&
           a.released[9] == 9 && c.released[9] == 9;
  }));
  EXPECT_TRUE(source == to_c);
  EXPECT_TRUE(source == to_a);
}

}  // namespace
}  // namespace mlxcomm::fabric
