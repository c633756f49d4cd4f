// Calls on their way to a node that never carries them out.
#include "daemon/services/posted_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "tests/unit/daemon/node/lone_node.h"

namespace mlxcomm::services::posted_calls_test {
namespace {

using Heard = node::Heard<v1::PingReply>;
using KeptAnswer = node::KeptAnswer<v1::PingReply>;

class PostedCallsTest : public testing::Test {
 protected:
  void Ask(Heard& heard) {
    calls_.Ask(std::make_unique<KeptAnswer>(heard),
               [kept = std::make_unique<int>(7)](node::Node&, std::unique_ptr<KeptAnswer>) {
                 FAIL() << "it ran: " << *kept;
               });
  }

  std::vector<Heard> heard_{PostedCalls::kCallsMax + 1};
  node::LoneNode<> lone_;
  std::optional<asio::io_context> io_{std::in_place};
  PostedCalls calls_{*io_, lone_.node, [] { return std::size_t{0}; }};
};

// Why: an answer that once crossed as a plain pointer was lost with the loop, and its caller waited
// forever.
TEST_F(PostedCallsTest, TheAnswerOfACallThatNeverRunsEndsWithTheLoop) {
  Heard& heard = heard_.front();
  Ask(heard);
  EXPECT_FALSE(heard.dropped);
  io_.reset();
  EXPECT_TRUE(heard.dropped);
  EXPECT_FALSE(heard.failure.has_value());
}

TEST_F(PostedCallsTest, RefusesMoreThanMayBeOnTheirWay) {
  for (Heard& one : heard_) Ask(one);
  ASSERT_TRUE(heard_.back().failure.has_value());
  EXPECT_EQ(heard_.back().failure->code, FailureCode::kResourceExhausted);
  heard_.pop_back();
  for (const Heard& one : heard_) EXPECT_FALSE(one.dropped || one.failure.has_value());
  io_.reset();
  for (const Heard& one : heard_) EXPECT_TRUE(one.dropped);
}

}  // namespace
}  // namespace mlxcomm::services::posted_calls_test
