#include "client/ctl/web/history.h"

#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace mlxcomm::ctl::history_test {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kBegin = 1'700'000'000'000'000'000;

v1::NodeStatus& AddNode(v1::StatusReply& status, const std::string& id) {
  v1::NodeStatus& node = *status.add_nodes();
  node.set_id(id);
  return node;
}

v1::LinkStatus& AddLink(v1::NodeStatus& node, const std::string& peer_id, double rate,
                        v1::Transport::Value transport = v1::Transport::tcp) {
  v1::LinkStatus& link = *node.add_links();
  link.set_peer_id(peer_id);
  v1::RailStatus& rail = *link.add_rails();
  rail.set_transport(transport);
  rail.set_state(v1::RailState::up);
  rail.set_sent_bytes_per_second(rate);
  rail.set_received_bytes_per_second(rate);
  return link;
}

v1::StatusReply WithOperations(std::uint64_t done) {
  v1::StatusReply status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("digits");
  for (const std::uint64_t rank : {done, done / 2}) job.add_ranks()->set_operations_done(rank);
  return status;
}

v1::WebHistory All(const History& history) {
  std::uint64_t seen = 0;
  return history.Since(seen);
}

TEST(HistoryTest, TakesOneSampleForEachStep) {
  History history;
  EXPECT_TRUE(history.Add({}, kBegin));
  EXPECT_FALSE(history.Add({}, kBegin + History::kStepNs - 1));
  EXPECT_TRUE(history.Add({}, kBegin + History::kStepNs));
  EXPECT_EQ(All(history).samples_size(), 2);
}

// Why: both sides report a link.
TEST(HistoryTest, CountsALinkOnceAndBothDirections) {
  v1::StatusReply status;
  AddLink(AddNode(status, "b"), "a", 100);
  AddLink(AddNode(status, "a"), "b", 90);
  History history;
  history.Add(status, kBegin);
  const v1::WebHistory all = All(history);
  EXPECT_THAT(all.links(), ElementsAre("a b"));
  EXPECT_EQ(all.samples(0).bytes_per_second(), 200);
  EXPECT_THAT(all.samples(0).link_bytes_per_second(), ElementsAre(200));
}

// Why: routes count on the other node's cables.
TEST(HistoryTest, ExcludesRoutesAndRailsThatAreDownFromTheSum) {
  v1::StatusReply status;
  v1::NodeStatus& node = AddNode(status, "a");
  AddLink(node, "b", 100, v1::Transport::route);
  AddLink(node, "c", 30).mutable_rails(0)->set_state(v1::RailState::down);
  AddLink(node, "d", 7);
  History history;
  history.Add(status, kBegin);
  EXPECT_EQ(All(history).samples(0).bytes_per_second(), 14);
  EXPECT_THAT(All(history).samples(0).link_bytes_per_second(), ElementsAre(200, 0, 14));
}

TEST(HistoryTest, KeepsTheOrderOfLinksWhenTheyChange) {
  v1::StatusReply first, second;
  AddLink(AddNode(first, "b"), "c", 10);
  AddLink(AddNode(second, "a"), "b", 20);
  History history;
  history.Add(first, kBegin);
  history.Add(second, kBegin + History::kStepNs);
  const v1::WebHistory all = All(history);
  EXPECT_THAT(all.links(), ElementsAre("b c", "a b"));
  EXPECT_THAT(all.samples(0).link_bytes_per_second(), ElementsAre(20));
  EXPECT_THAT(all.samples(1).link_bytes_per_second(), ElementsAre(0, 40));
}

// Why: in a changing cluster, links after the first 256 never had a curve.
TEST(HistoryTest, ReusesThePlaceOfALinkThatIsGone) {
  v1::StatusReply first, second;
  for (std::size_t i = 0; i < History::kLinksMax; ++i)
    AddLink(AddNode(first, "a"), absl::StrCat("b", i), i == 0 ? 10 : 0);
  AddLink(AddNode(second, "a"), "c", 20);
  History history;
  history.Add(first, kBegin);
  history.Add(second, kBegin + History::kStepNs);
  const v1::WebHistory all = All(history);
  EXPECT_EQ(all.links(0), "a b0");  // It has carried something.
  EXPECT_EQ(all.links(1), "a c");
  EXPECT_EQ(all.samples(1).link_bytes_per_second(1), 40);
}

TEST(HistoryTest, CountsTheOperationsOfTheFastestRank) {
  History history;
  history.Add(WithOperations(1000), kBegin);  // Nobody knows since when.
  history.Add(WithOperations(1300), kBegin + 2'000'000'000);
  history.Add(WithOperations(30), kBegin + 6'000'000'000);  // Another job of the same name.
  history.Add({}, kBegin + 8'000'000'000);
  history.Add(WithOperations(10), kBegin + 10'000'000'000);
  const v1::WebHistory all = All(history);
  std::vector<double> rates;
  for (const v1::WebSample& sample : all.samples()) rates.push_back(sample.operations_per_second());
  EXPECT_THAT(rates, ElementsAre(0, 150, 0, 0, 5));
}

TEST(HistoryTest, ReturnsOnlyNewSamples) {
  History history;
  std::uint64_t seen = 0;
  EXPECT_EQ(history.Since(seen).samples_size(), 0);
  history.Add({}, kBegin);
  EXPECT_EQ(history.Since(seen).samples_size(), 1);
  EXPECT_EQ(history.Since(seen).samples_size(), 0);
  history.Add({}, kBegin + History::kStepNs);
  EXPECT_EQ(history.Since(seen).samples(0).unix_ns(), kBegin + History::kStepNs);
}

TEST(HistoryTest, ForgetsSamplesOlderThanTheWindow) {
  History history;
  std::uint64_t seen = 0;
  history.Add({}, kBegin);
  history.Since(seen);
  for (std::uint64_t i = 1; i <= 2 * History::kSamplesMax; ++i)
    history.Add({}, kBegin + i * History::kStepNs);
  EXPECT_EQ(history.Since(seen).samples_size(), static_cast<int>(History::kSamplesMax));
  history.Add({}, kBegin + 10 * History::kWindowNs);
  EXPECT_EQ(All(history).samples_size(), 1);
}

// Why: if the machine's clock was set back, no samples were taken until it caught up.
TEST(HistoryTest, StartsAgainWhenTheClockIsSetBack) {
  History history;
  std::uint64_t seen = 0;
  history.Add({}, kBegin);
  history.Since(seen);
  EXPECT_TRUE(history.Add({}, kBegin - History::kWindowNs));
  EXPECT_EQ(history.Since(seen).samples_size(), 1);
  EXPECT_EQ(All(history).samples_size(), 1);
}

}  // namespace
}  // namespace mlxcomm::ctl::history_test
