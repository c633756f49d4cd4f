// What OpenMetrics wants otherwise than Prometheus's own text format; that a whole scrape is
// read by a parser of it is in tests/metrics/.
#include "daemon/control/openmetrics_text.h"

#include <gtest/gtest.h>

#include <string>

#include <prometheus/metric_family.h>

namespace mlxcomm::control::openmetrics_text_test {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

TEST(OpenMetricsTextTest, EndsWithItsMark) {
  EXPECT_EQ(OpenMetricsText().Serialize({}), "# EOF\n");
}

TEST(OpenMetricsTextTest, ACountersFamilyHasItsNameWithoutTotal) {
  ClientMetric metric;
  metric.label = {{"peer", "a \"b\"\\\n"}};
  metric.counter.value = 12345678901;
  const MetricFamily family{"sent_bytes_total", "All\nof it.", MetricType::Counter, {metric}};
  EXPECT_EQ(OpenMetricsText().Serialize({family}),
            "# TYPE sent_bytes counter\n"
            "# HELP sent_bytes All\\nof it.\n"
            "sent_bytes_total{peer=\"a \\\"b\\\"\\\\\\n\"} 12345678901\n"
            "# EOF\n");
}

TEST(OpenMetricsTextTest, BucketsHaveBoundsWithAFractionAndTheLastIsTheCount) {
  ClientMetric metric;
  metric.histogram.bucket = {{2, 1.6e-05}, {3, 1}};
  metric.histogram.sample_count = 4;
  metric.histogram.sample_sum = 0.25;
  const MetricFamily family{"duration_seconds", "x", MetricType::Histogram, {metric}};
  EXPECT_EQ(OpenMetricsText().Serialize({family}),
            "# TYPE duration_seconds histogram\n"
            "# HELP duration_seconds x\n"
            "duration_seconds_bucket{le=\"1.6e-05\"} 2\n"
            "duration_seconds_bucket{le=\"1.0\"} 3\n"
            "duration_seconds_bucket{le=\"+Inf\"} 4\n"
            "duration_seconds_count 4\n"
            "duration_seconds_sum 0.25\n"
            "# EOF\n");
}

TEST(OpenMetricsTextTest, IsForThoseWhoAcceptItsVersion) {
  // As Prometheus asks.
  EXPECT_TRUE(
      AcceptsOpenMetrics("application/openmetrics-text;version=1.0.0,"
                         "application/openmetrics-text;version=0.0.1;q=0.75,"
                         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  EXPECT_TRUE(AcceptsOpenMetrics("text/plain, Application/OpenMetrics-Text; version=1.0.0"));
  EXPECT_TRUE(AcceptsOpenMetrics("application/openmetrics-text"));
  EXPECT_FALSE(AcceptsOpenMetrics(nullptr));
  EXPECT_FALSE(AcceptsOpenMetrics(""));
  EXPECT_FALSE(AcceptsOpenMetrics("*/*"));
  EXPECT_FALSE(AcceptsOpenMetrics("application/openmetrics-text; q=0"));
  EXPECT_FALSE(AcceptsOpenMetrics("application/openmetrics-text; version=0.0.1"));
}

}  // namespace
}  // namespace mlxcomm::control::openmetrics_text_test
