// The metrics for Prometheus, from snapshots made by hand.
#include "daemon/metrics/metric_families.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>
#include <string>

#include <prometheus/text_serializer.h>

#include "proto/types/operation.h"

namespace mlxcomm::metrics::metric_families_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr auto kAllReduce = static_cast<std::uint8_t>(OperationKind::kAllReduce);
constexpr auto kFloat32 = static_cast<std::uint8_t>(DataType::kFloat32);

std::string Text(const std::optional<LoopMetrics>& loop,
                 const record::OperationCounts& operations = {}) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, WriteMetricFamilies(loop, operations));
  return out.str();
}

v1::RailStatus Rail(const std::string& address, v1::RailState::Value state, std::uint64_t sent) {
  v1::RailStatus rail;
  rail.set_transport(v1::Transport::tcp);
  rail.set_local_interface("en2");
  rail.set_local_address(address);
  rail.set_state(state);
  rail.set_sent_bytes(sent);
  return rail;
}

TEST(MetricFamiliesTest, ALoopThatDoesNotAnswerIsToldWithWhatIsKnownWithoutIt) {
  record::OperationCounts counts;
  counts.Add(kAllReduce, kFloat32, false, 8, 1'000);
  const std::string text = Text(std::nullopt, counts);
  EXPECT_THAT(text, HasSubstr("mlxcomm_engine_responsive 0"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_operations_done_total{operation=\"all_reduce\","
                              "dtype=\"float32\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("mlxcomm_clients")));
}

// Why: two samples with the same name and labels make a whole scrape fail.
// How: a rail that was cut and its successor differ only in their ports.
TEST(MetricFamiliesTest, RailsOfOneCableAreOneSample) {
  LoopMetrics loop;
  v1::LinkStatus& link = *loop.node.add_links();
  link.set_peer("b");
  link.set_state(v1::LinkState::up);
  link.set_changed_frames(3);
  *link.add_rails() = Rail("10.0.0.1:7470", v1::RailState::up, 100);
  *link.add_rails() = Rail("10.0.0.1:40112", v1::RailState::down, 20);
  loop.node.add_links()->set_peer("b");
  const std::string text = Text(loop);
  const std::string labels =
      "{peer=\"b\",transport=\"tcp\",local_interface=\"en2\",remote_interface=\"\"} ";
  EXPECT_THAT(text, HasSubstr("mlxcomm_rail_sent_bytes_total" + labels + "120"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_rails_up" + labels + "1"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_rails_down" + labels + "1"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_link_up{peer=\"b\"} 1"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_link_changed_frames_total{peer=\"b\"} 3"));
  std::set<std::string> seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second || line[0] == '#') << line;
  }
}

TEST(MetricFamiliesTest, TellsConnectionsThatWereEndedByEachReason) {
  LoopMetrics loop;
  v1::EndedConnections& reported = *loop.node.add_control_connections_ended();
  reported.set_reason("pings");
  reported.set_count(3);
  const std::string text = Text(loop);
  const std::string name = "mlxcomm_control_connections_ended_total{reason=";
  EXPECT_THAT(text, HasSubstr(name + "\"pings\"} 3"));
  EXPECT_THAT(text,
              HasSubstr(name + "\"unread\"} 0"));  // So that the first one shows as a rate.
  EXPECT_THAT(text, Not(HasSubstr("reason=\"none\"")));
}

TEST(MetricFamiliesTest, NamesOfOtherNodesBreakNoLine) {
  LoopMetrics loop;
  loop.node.add_links()->set_peer("b\"} 1\nmlxcomm_evil 1\n");
  EXPECT_THAT(Text(loop), Not(HasSubstr("\nmlxcomm_evil")));
}

TEST(MetricFamiliesTest, CountsJobsByStateAndTellsNoNames) {
  LoopMetrics loop;
  loop.jobs["running"] = 2;
  loop.ended_jobs["RANK_LOST"] = 1;
  loop.node.add_users()->set_user("ann");
  const std::string text = Text(loop);
  EXPECT_THAT(text, HasSubstr("mlxcomm_jobs{state=\"running\"} 2"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_jobs{state=\"failed\"} 0"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_jobs_ended_recently{code=\"RANK_LOST\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("ann")));
}

TEST(MetricFamiliesTest, BucketsAddUpAndWhatIsSlowerThanAllIsInTheTotal) {
  record::OperationCounts counts;
  counts.Add(kAllReduce, kFloat32, false, 8, 16'000);  // On the first bound.
  counts.Add(kAllReduce, kFloat32, false, 8, 16'001);
  counts.Add(kAllReduce, kFloat32, false, 8, 90'000'000'000);
  counts.Add(kAllReduce, kFloat32, true, 8, 5);
  const std::string text = Text(std::nullopt, counts);
  const std::string name =
      "mlxcomm_operation_duration_seconds_bucket{operation=\"all_reduce\",dtype=\"float32\",le=";
  EXPECT_THAT(text, HasSubstr(name + "\"1.6e-05\"} 1"));
  EXPECT_THAT(text, HasSubstr(name + "\"6.4e-05\"} 2"));
  EXPECT_THAT(text, HasSubstr(name + "\"+Inf\"} 3"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_operations_failed_total{operation=\"all_reduce\","
                              "dtype=\"float32\"} 1"));
  EXPECT_THAT(text, HasSubstr("mlxcomm_operation_bytes_total{operation=\"all_reduce\","
                              "dtype=\"float32\"} 24"));
}

TEST(OperationCountsTest, NumbersThatNobodyKnowsAreNotCounted) {
  record::OperationCounts counts;
  counts.Add(16, 1, false, 8, 1);
  counts.Add(1, 255, false, 8, 1);
  EXPECT_THAT(Text(std::nullopt, counts), Not(HasSubstr("operations_done_total{")));
}

}  // namespace
}  // namespace mlxcomm::metrics::metric_families_test
