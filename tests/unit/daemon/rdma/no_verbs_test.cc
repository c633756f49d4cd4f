#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma::no_verbs_test {
namespace {

// Why: a daemon without RDMA is normal, and must report how to get another.
// How: this program contains the stand-ins of such a daemon.
TEST(NoVerbsTest, ReportsThatItWasBuiltWithoutAndWhatIsMissing) {
  const auto none = ListDevices("");
  EXPECT_TRUE(absl::IsNotFound(none.status()));
  EXPECT_THAT(std::string(none.status().message()),
              testing::HasSubstr("built without RDMA: no complete infiniband/verbs.h"));
}

}  // namespace
}  // namespace mlxcomm::rdma::no_verbs_test
