#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma::no_verbs_test {
namespace {

// Why: a daemon without RDMA is an ordinary one, and must say how to get another. How: this program
// contains what such a daemon has in place of verbs.
TEST(NoVerbsTest, SaysThatItWasBuiltWithoutAndWhatIsMissing) {
  const auto none = LoadLibrary("");
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
  EXPECT_THAT(std::string(none.status().message()),
              testing::HasSubstr("built without RDMA: no complete infiniband/verbs.h"));
}

}  // namespace
}  // namespace mlxcomm::rdma::no_verbs_test
