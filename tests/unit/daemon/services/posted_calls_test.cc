// Calls on their way to a node that never carries them out.
#include "daemon/services/posted_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "daemon/node/node.h"
#include "daemon/work/scratch_pool.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "tests/unit/daemon/node/heard.h"
#include "tests/unit/daemon/node/still_port.h"

namespace mlxcomm::services::posted_calls_test {
namespace {

using Heard = node::Heard<v1::PingReply>;
using KeptAnswer = node::KeptAnswer<v1::PingReply>;

class PostedCallsTest : public testing::Test {
 protected:
  static node::NodeOptions Options() {
    node::NodeOptions options;
    options.fabric.self = {node::IdOf(1), "here", "test", 7};
    options.link_latency_ns = 8192;
    return options;
  }
  void Ask(Heard& heard) {
    calls_.Ask(std::make_unique<KeptAnswer>(heard),
               [kept = std::make_unique<int>(7)](node::Node&, std::unique_ptr<KeptAnswer>) {
                 FAIL() << "it ran: " << *kept;
               });
  }

  std::vector<Heard> heard_{PostedCalls::kCallsMax + 1};
  node::StillPort port_;
  ScratchPool scratch_{1 << 20};
  record::FlightRecorder recorder_{"here"};
  record::OperationCounts counts_;
  node::Node node_{Options(), scratch_, recorder_, counts_,
                   port_,     port_,    port_,     [] { return std::uint64_t{1}; },
                   1};
  std::optional<asio::io_context> io_{std::in_place};
  PostedCalls calls_{*io_, node_, [] { return std::size_t{0}; }};
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
