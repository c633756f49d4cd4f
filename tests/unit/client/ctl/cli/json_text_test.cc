#include "client/ctl/cli/json_text.h"

#include <utility>

#include <gmock/gmock.h>

#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl::json_text_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Why: programs look for fields by their names, and a null is not a 0.
TEST(JsonTextTest, PrintsEveryFieldUnderItsName) {
  v1::PingReport report;
  report.add_round_trips_ns()->set_number_value(200'000);
  report.add_round_trips_ns()->set_null_value(google::protobuf::NULL_VALUE);
  report.set_round_trip_ns_max(86'400'000'000);
  const std::string json = JsonOf(std::move(report), JsonLayout::kCompact);
  EXPECT_THAT(json, HasSubstr("\"round_trips_ns\":[200000,null]"));
  EXPECT_THAT(json, HasSubstr("\"round_trip_ns_max\":86400000000"));
  EXPECT_THAT(json, HasSubstr("\"rails\":[]"));
  EXPECT_THAT(JsonOf(v1::ClusterKeyReport(), JsonLayout::kCompact), Not(HasSubstr("code")))
      << "an optional one that is not there";
}

// Why: paths are bytes, and others choose names. Protobuf alone drops such bytes, so that two
// different names became one, and complains on standard error.
TEST(JsonTextTest, ReplacesInvalidUtf8) {
  v1::RdmaTrials trials;
  trials.set_trouble("v\xe2\x82");
  v1::RdmaTrialDevice& device = *trials.add_devices();
  device.add_gids("n\xff");
  device.set_name("\xed\xa0\x80 d\"\x1b");
  const std::string json = JsonOf(std::move(trials), JsonLayout::kCompact);
  EXPECT_THAT(json, HasSubstr("[\"n\xef\xbf\xbd\"]"));
  EXPECT_THAT(json, HasSubstr("\"v\xef\xbf\xbd\xef\xbf\xbd\""));
  EXPECT_THAT(json, HasSubstr(" d\\\"\\u001b"));
}

}  // namespace
}  // namespace mlxcomm::ctl::json_text_test
