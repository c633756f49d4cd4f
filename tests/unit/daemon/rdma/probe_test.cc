#include "daemon/rdma/probe.h"

#include "daemon/platform/machine.h"
#include "tests/unit/daemon/rdma/fake_verbs_control.h"

namespace mlxcomm::rdma::probe_test {
namespace {

class ProbeTest : public testing::Test {
 protected:
  ~ProbeTest() override {
    control_.Want("");
    control_.TakeFaults();
  }
  static absl::StatusOr<v1::TransportStatus> Ask(std::uint64_t timeout_ns = 60'000'000'000,
                                                 const std::string& library = FAKE_VERBS_LIBRARY) {
    return Probe(PROBE_PROGRAM, library, timeout_ns);
  }
  FakeVerbsControl control_;
};

TEST_F(ProbeTest, ReportsDevicesAndTheirAddresses) {
  control_.Want("down rdma_en2");
  const auto found = Ask();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->devices_size(), 2);
  EXPECT_EQ(found->devices(0).name(), "rdma_en1");
  EXPECT_TRUE(found->devices(0).active());
  EXPECT_EQ(found->devices(0).gids(1), GidText(Ipv4Gid(1)));
  EXPECT_FALSE(found->devices(1).active());
  EXPECT_EQ(found->devices(1).state(), "port 1 is down");
}

TEST_F(ProbeTest, ReportsWhyThereAreNoDevices) {
  EXPECT_NE(
      Ask(60'000'000'000, "/nowhere/libverbs.so").status().message().find("/nowhere/libverbs.so"),
      std::string::npos);
  const auto no_program = Probe("/nowhere/program", "", 1'000'000'000);
  EXPECT_TRUE(absl::IsUnavailable(no_program.status())) << no_program.status();
  const auto another = Probe("/bin/true", "", 60'000'000'000);
  EXPECT_TRUE(absl::IsUnavailable(another.status())) << another.status();
}

// A program in place of the probe: its output is not trusted.
class Pretender {
 public:
  explicit Pretender(const std::string& script) {
    std::ofstream(path_) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  absl::Status Ask(std::uint64_t timeout_ns = 60'000'000'000) const {
    return Probe(path_, "", timeout_ns).status();
  }

 private:
  const std::string path_ = FakeVerbsControl::Folder() + "/pretender";
};

// Why: the daemon's memory and time are bounded, whatever a driver does to that process.
TEST_F(ProbeTest, KillsAProcessThatPrintsTooMuch) {
  const std::uint64_t before = platform::MonotonicNow();
  const absl::Status answer = Pretender("exec yes").Ask();
  EXPECT_TRUE(absl::IsUnavailable(answer)) << answer;
  EXPECT_NE(answer.message().find("too much"), std::string::npos) << answer;
  EXPECT_LT(platform::MonotonicNow() - before, 30'000'000'000u) << "before the deadline";
  EXPECT_TRUE(Ask().ok()) << "and it is gone";
}

TEST_F(ProbeTest, RejectsGarbageAsAnAnswer) {
  for (const char* const script :
       {"head -c 20000 /dev/urandom", "echo end of story", "echo 'devices { name: \"rdma_en1\" }'",
        "printf 'devices { name: \"a\\nend\\n'", "printf 'device\\ta\\t1\\tb\\nend\\n'",
        "exit 0"}) {
    EXPECT_TRUE(absl::IsUnavailable(Pretender(script).Ask())) << script;
  }
}

// Why: unloading the library may hang; the process has answered completely, and is killed.
TEST_F(ProbeTest, KillsAProcessThatHasAnsweredAndStays) {
  const absl::Status answer =
      Pretender("echo end; exec >/dev/null; exec sleep 600").Ask(300'000'000);
  EXPECT_TRUE(answer.ok()) << answer;
  EXPECT_TRUE(Ask().ok()) << "and it is gone";
}

TEST_F(ProbeTest, IgnoresTheDriversOutput) {
  control_.Want("print ibv_query_port");
  const auto found = Ask();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->devices_size(), 2);
}

// Why: which call hangs, or crashes the process, differs from driver to driver.
class ProbeCallTest : public ProbeTest, public testing::WithParamInterface<const char*> {};

TEST_P(ProbeCallTest, SurvivesACallThatHangs) {
  control_.Want(std::string("hang ") + GetParam());
  const auto found = Ask(300'000'000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(found.status())) << found.status();
  control_.Want("");
  EXPECT_TRUE(Ask().ok());
}

TEST_P(ProbeCallTest, SurvivesACallThatCrashes) {
  control_.Want(std::string("crash ") + GetParam());
  const auto found = Ask();
  EXPECT_NE(found.status().message().find("by signal 11"), std::string::npos) << found.status();
}

INSTANTIATE_TEST_SUITE_P(Calls, ProbeCallTest,
                         testing::Values("ibv_get_device_list", "ibv_free_device_list",
                                         "ibv_get_device_name", "ibv_open_device",
                                         "ibv_close_device", "ibv_query_device", "ibv_query_port",
                                         "ibv_query_gid"),
                         [](const auto& call) { return std::string(call.param); });

}  // namespace
}  // namespace mlxcomm::rdma::probe_test
