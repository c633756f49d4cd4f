#include "daemon/node/peer_probes.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::node::peer_probes_test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

constexpr auto Id = IdOf;

class PeerProbesTest : public testing::Test {
 protected:
  void Ping(std::uint32_t payload_bytes, std::uint64_t now_ns) {
    v1::PingRequest request;
    request.set_payload_bytes(payload_bytes);
    probes.Ping({Id(1), "b", "1"}, request, {}, {now_ns, 0},
                std::make_unique<KeptAnswer<v1::PingReply>>(ping));
  }
  void Checkup(std::uint64_t now_ns, std::uint64_t unix_ns) {
    v1::DoctorReply reply;
    reply.add_nodes()->set_name("a");
    probes.Checkup({{Id(2), "c", "2"}, {Id(1), "b", "1"}}, reply, {now_ns, unix_ns}, One(checkup));
  }
  static std::vector<std::unique_ptr<DoctorAnswer>> One(Heard<v1::DoctorReply>& heard) {
    std::vector<std::unique_ptr<DoctorAnswer>> answers;
    answers.push_back(std::make_unique<KeptAnswer<v1::DoctorReply>>(heard));
    return answers;
  }
  v1::ProbeAnswer AnswerTo(std::size_t sent) const {
    v1::ProbeAnswer answer;
    answer.set_query(wire.sent.at(sent).second.probe().query());
    answer.set_payload(wire.sent.at(sent).second.probe().payload());
    return answer;
  }

  Wire wire;
  PeerProbes probes{std::ref(wire)};
  Heard<v1::PingReply> ping;
  Heard<v1::DoctorReply> checkup;
};

TEST_F(PeerProbesTest, MeasuresFromThereToBack) {
  Ping(100, 5 * kMs);
  ASSERT_EQ(wire.sent.size(), 1u);
  EXPECT_EQ(wire.sent[0].second.probe().payload().size(), 100u);
  EXPECT_TRUE(probes.OnAnswer(Id(1), AnswerTo(0), {8 * kMs, 0}));
  ASSERT_TRUE(ping.reply.has_value());
  EXPECT_EQ(ping.reply->round_trip_ns(), 3 * kMs);
  EXPECT_EQ(probes.NextDeadline(), PeerProbes::kNever);
}

// Why: a node that answers for another, or with other bytes, must not produce a figure.
TEST_F(PeerProbesTest, TakesNoAnswerThatIsNotTheRightOne) {
  Ping(100, 0);
  EXPECT_FALSE(probes.OnAnswer(Id(2), AnswerTo(0), {1, 0}));
  v1::ProbeAnswer shorter = AnswerTo(0);
  shorter.set_payload("x");
  EXPECT_FALSE(probes.OnAnswer(Id(1), shorter, {1, 0}));
  EXPECT_FALSE(ping.reply.has_value());
  v1::ProbeAnswer unknown;
  unknown.set_query(77);
  EXPECT_TRUE(probes.OnAnswer(Id(1), unknown, {1, 0}));  // It may only be late.
}

TEST_F(PeerProbesTest, SaysThatAPingIsLostAtItsDeadlineOrWithItsNode) {
  Ping(0, 0);
  EXPECT_EQ(probes.NextDeadline(), PeerProbes::kTimeoutMsDefault * kMs);
  probes.OnTime(probes.NextDeadline() - 1);
  EXPECT_FALSE(ping.reply.has_value());
  probes.OnTime(probes.NextDeadline());
  ASSERT_TRUE(ping.reply.has_value());
  EXPECT_EQ(ping.reply->round_trip_ns(), 0u);
  EXPECT_EQ(ping.reply->why_not(), "has not answered in time");
  ping = {};
  Ping(0, 0);
  probes.OnNodeLost(Id(1));
  EXPECT_EQ(ping.reply.value().why_not(), "was lost before it answered");
}

TEST_F(PeerProbesTest, RefusesWhatIsBeyondItsLimits) {
  Ping(PeerProbes::kPayloadBytesMax + 1, 0);
  EXPECT_EQ(ping.failure.value().code, FailureCode::kInvalidArgument);
  for (std::size_t i = 0; i < PeerProbes::kAsksMax; ++i) Ping(0, 0);
  ping = {};
  Ping(0, 0);
  EXPECT_EQ(ping.failure.value().code, FailureCode::kResourceExhausted);
}

// How: b's clock is 5 s ahead, as seen after a trip of 2 ms; c does not answer.
TEST_F(PeerProbesTest, ComparesClocksAndListsWhoDidNotAnswer) {
  const std::uint64_t base_ns = 1'000'000 * kMs;
  Checkup(10 * kMs, base_ns);
  ASSERT_EQ(wire.sent.size(), 2u);
  v1::ProbeAnswer answer = AnswerTo(1);
  answer.mutable_checkup()->set_unix_ns(base_ns + 5000 * kMs + kMs);
  answer.mutable_checkup()->set_name("somebody else");
  EXPECT_TRUE(probes.OnAnswer(Id(1), answer, {12 * kMs, 0}));
  EXPECT_FALSE(checkup.reply.has_value());
  probes.OnTime(probes.NextDeadline());
  ASSERT_TRUE(checkup.reply.has_value());
  ASSERT_EQ(checkup.reply->nodes_size(), 3);
  // The name that it proved, not the one that it reports.
  EXPECT_EQ(checkup.reply->nodes(1).name(), "b");
  EXPECT_TRUE(checkup.reply->nodes(1).answered());
  EXPECT_EQ(checkup.reply->nodes(1).clock_offset_ns(), static_cast<std::int64_t>(5000 * kMs));
  EXPECT_EQ(checkup.reply->nodes(1).clock_uncertainty_ns(), kMs);
  EXPECT_EQ(checkup.reply->nodes(2).name(), "c");
  EXPECT_FALSE(checkup.reply->nodes(2).answered());
}

TEST_F(PeerProbesTest, AnswersAtOnceWhereThereAreNoOtherNodes) {
  v1::DoctorReply reply;
  reply.add_nodes()->set_name("a");
  probes.Checkup({}, reply, {}, One(checkup));
  EXPECT_TRUE(checkup.reply.has_value());
}

}  // namespace
}  // namespace mlxcomm::node::peer_probes_test
