// Configurations from lists of hosts. That the daemon takes them: tests/faults/test_hosts.py.
#include "client/ctl/imported_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm::ctl::imported_config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ImportOptions kOptions{
    .path = "hosts", .cluster = "studio", .key_file = "/key", .port = 7470, .links = ""};

std::vector<v1::DaemonConfig> Made(const std::string& text, ImportOptions options = kOptions) {
  Hostfile file;
  EXPECT_TRUE(ParseHostfile("hosts", text, file).ok());
  std::vector<ImportedConfig> configs;
  EXPECT_EQ(MakeConfigs(file, options, configs).message, "");
  std::vector<v1::DaemonConfig> parsed;
  for (const ImportedConfig& config : configs) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(config.text, &parsed.emplace_back()));
  }
  return parsed;
}

// MLX gives each host of a ring the addresses of its cables to the host before it.
TEST(ImportedConfigTest, JoinsARingByItsCables) {
  const auto made = Made(R"({"backend": "ring", "hosts": [
      {"ssh": "a", "ips": ["192.168.0.10"]}, {"ssh": "me@b", "ips": ["192.168.0.2"]},
      {"ssh": "c", "ips": ["fe80::6%en3"]}]})");
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[1].node_name(), "b");
  EXPECT_EQ(made[1].cluster(), "studio");
  EXPECT_EQ(made[1].peers().key_file(), "/key");
  EXPECT_THAT(made[0].peers().listen(), ElementsAre("192.168.0.10:7470"));
  EXPECT_THAT(made[0].peers().connect(), ElementsAre("192.168.0.2:7470"));
  EXPECT_THAT(made[1].peers().connect(), ElementsAre("[fe80::6%en3]:7470"));
  EXPECT_THAT(made[2].peers().connect(), ElementsAre("192.168.0.10:7470"));
}

// Why: a name in the file goes before the one that came with the key, and nodes of two names
// refuse each other.
TEST(ImportedConfigTest, NamesNoClusterUnlessItIsGiven) {
  ImportOptions options = kOptions;
  options.cluster = "";
  EXPECT_FALSE(Made("10.0.0.1\n10.0.0.2\n", options)[0].has_cluster());
}

TEST(ImportedConfigTest, JoinsTwoHostsOnce) {
  const auto made = Made(R"([{"ssh": "a", "ips": ["10.0.0.1", "10.0.1.1"]},
                             {"ssh": "b", "ips": ["10.0.0.2", "10.0.1.2"]}])");
  EXPECT_THAT(made[0].peers().connect(), ElementsAre("10.0.0.2:7470", "10.0.1.2:7470"));
  EXPECT_THAT(made[1].peers().connect(), IsEmpty());
}

TEST(ImportedConfigTest, JoinsAllOnOneNetwork) {
  const auto made = Made("10.0.0.1 slots=2\n10.0.0.2\n10.0.0.3\n10.0.0.1\n");
  ASSERT_EQ(made.size(), 3u) << "a host that stands twice is one node";
  EXPECT_THAT(made[0].peers().connect(), ElementsAre("10.0.0.2:7470", "10.0.0.3:7470"));
  EXPECT_THAT(made[2].peers().connect(), IsEmpty());
  ImportOptions ring = kOptions;
  ring.links = "ring";
  EXPECT_THAT(Made("10.0.0.1\n10.0.0.2\n10.0.0.3\n", ring)[2].peers().connect(),
              ElementsAre("10.0.0.1:7470"));
}

// Why: a hostfile of JACCL has one address for each host, often that of a slow network; the cables
// are named by their RDMA devices alone, and a daemon without a connection on them has no rail there.
TEST(ImportedConfigTest, LooksForNeighboursOnTheCablesOfRdmaDevices) {
  const auto made = Made(R"({"backend": "jaccl", "hosts": [
      {"ssh": "a", "ips": ["10.0.0.1"], "rdma": [null, ["rdma_en5", "rdma_en3"]]},
      {"ssh": "b", "ips": ["10.0.0.2"], "rdma": ["rdma_en4", null]}]})");
  ASSERT_EQ(made.size(), 2u);
  EXPECT_TRUE(made[0].rdma().enabled());
  EXPECT_TRUE(made[0].discovery().enabled());
  EXPECT_THAT(made[0].discovery().interfaces(), ElementsAre("en3", "en5"));
  EXPECT_THAT(made[1].discovery().interfaces(), ElementsAre("en4"));
  EXPECT_THAT(made[0].peers().connect(), ElementsAre("10.0.0.2:7470"));
}

// Devices of Linux do not tell their interfaces.
TEST(ImportedConfigTest, EnablesRdmaOnlyWhereADeviceIsNamed) {
  const auto made = Made(R"([{"ssh": "a", "ips": ["10.0.0.1"], "rdma": [null, "mlx5_0"]},
                             {"ssh": "b", "ips": ["10.0.0.2"], "rdma": []}])");
  EXPECT_TRUE(made[0].rdma().enabled());
  EXPECT_FALSE(made[0].has_discovery());
  EXPECT_FALSE(made[1].has_rdma());
}

TEST(ImportedConfigTest, SaysWhichHostLacksAnAddress) {
  Hostfile file;
  std::vector<ImportedConfig> configs;
  ASSERT_TRUE(ParseHostfile("hosts", "10.0.0.1\nmac-2\n", file).ok());
  EXPECT_THAT(MakeConfigs(file, kOptions, configs).message,
              HasSubstr("host mac-2: has no \"ips\""));
  ASSERT_TRUE(ParseHostfile("hosts", R"([{"ssh": "a", "ips": ["nonsense"]}])", file).ok());
  EXPECT_THAT(MakeConfigs(file, kOptions, configs).message, HasSubstr("got \"nonsense\""));
}

}  // namespace
}  // namespace mlxcomm::ctl::imported_config_test
