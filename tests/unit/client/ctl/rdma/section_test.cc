#include "client/ctl/rdma/section.h"

#include <gtest/gtest.h>

#include <optional>

namespace mlxcomm::ctl::rdma::section_test {
namespace {

TEST(SectionTest, ReadsWhetherRdmaIsEnabled) {
  EXPECT_EQ(ParseRdmaEnabled("enabled\n"), true);
  EXPECT_EQ(ParseRdmaEnabled("RDMA is Disabled"), false);
  EXPECT_EQ(ParseRdmaEnabled("RDMA is not enabled"), false);
  EXPECT_EQ(ParseRdmaEnabled("usage: rdma_ctl ..."), std::nullopt);
}

}  // namespace
}  // namespace mlxcomm::ctl::rdma::section_test
