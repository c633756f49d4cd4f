// The results of trials on fake devices: with Apple's documented behaviour, with others', and
// without any.
#include "daemon/rdma/trials.h"

#include <gmock/gmock.h>

#include <map>

#include <google/protobuf/text_format.h>

#include "mlxcomm/v1/ctl.pb.h"
#include "tests/unit/daemon/rdma/fake_library.h"

namespace mlxcomm::rdma::trials_test {
namespace {

using testing::HasSubstr;

class TrialsTest : public FakeLibraryTest {
 protected:
  absl::StatusOr<std::string> Run(const std::string& name) {
    return RunTrial(name, {FAKE_VERBS_LIBRARY, limits_, "rdma_en1"});
  }
  Limits limits_;
};

// Why: a reader compares a report with the assumptions about such devices.
// How: the fake has Apple's rules and reports broken ones, which this test expects.
TEST_F(TrialsTest, ReportWhatApplesDevicesAreSaidToAccept) {
  const std::map<std::string, std::string> refused = {
      {"pair-rc", "has no reliable queue pairs"},
      {"region-local", "did not register memory"},
      {"receives-before", "refused a receive"},
      {"message-short", "a receive failed: local length error"}};
  const std::map<std::string, std::string> expected = {
      {"describe", "max_qp 11"},
      {"depth", "of 4095 requested"},
      {"message", "20480 bytes were received, unchanged"},
      {"receives-after", "32 receives were accepted"},
      {"pairs", "10 queue pairs at once"},
      {"regions", "100 at once"}};
  for (const Trial& trial : Trials()) {
    const absl::StatusOr<std::string> reported = Run(trial.name);
    const auto why = refused.find(trial.name);
    EXPECT_EQ(reported.ok(), why == refused.end()) << trial.name << ": " << reported.status();
    if (!reported.ok() && why != refused.end()) {
      EXPECT_THAT(std::string(reported.status().message()), HasSubstr(why->second)) << trial.name;
    }
    const auto text = expected.find(trial.name);
    if (!reported.ok() || text == expected.end()) continue;
    EXPECT_THAT(*reported, HasSubstr(text->second));
  }
  const std::string faults = TakeFaults();
  EXPECT_THAT(faults, HasSubstr("a region reaches over 4 GiB"));
}

TEST_F(TrialsTest, ReportWhatLinuxDevicesAccept) {
  Want("unreliable_only 0");
  limits_ = LinuxLimits();
  for (const char* const name : {"pair-rc", "region-local", "receives-before", "message-short"}) {
    EXPECT_TRUE(Run(name).ok()) << name << ": " << Run(name).status();
  }
}

TEST_F(TrialsTest, ReportWhereADriverFails) {
  Want("fail ibv_reg_mr");
  EXPECT_THAT(std::string(Run("pair-uc").status().message()), HasSubstr("did not register memory"));
  EXPECT_THAT(Run("regions").value_or(""),
              HasSubstr("0 at once; then: RDMA device rdma_en1 did not register"));
  Want("fail ibv_open_device");
  EXPECT_THAT(std::string(Run("describe").status().message()), HasSubstr("cannot be opened"));
}

TEST_F(TrialsTest, ListTrialsAndDevices) {
  Want("down rdma_en2");
  v1::RdmaTrials all;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(Run("devices").value_or("x"), &all));
  ASSERT_EQ(all.devices_size(), 2);
  EXPECT_EQ(all.devices(0).name(), "rdma_en1");
  EXPECT_TRUE(all.devices(0).active());
  EXPECT_GT(all.devices(0).gids_size(), 0);
  EXPECT_EQ(all.devices(0).trials_size(), static_cast<int>(Trials().size()));
  EXPECT_EQ(all.devices(1).state(), "port 1 is down");
  ASSERT_EQ(all.devices(1).trials_size(), 1) << "the one that needs no port";
  EXPECT_EQ(all.devices(1).trials(0).name(), "describe");
  EXPECT_TRUE(absl::IsInvalidArgument(Run("nothing").status()));
  EXPECT_FALSE(RunTrial("devices", {"/nowhere/libverbs.so", {}, ""}).ok());
}

}  // namespace
}  // namespace mlxcomm::rdma::trials_test
