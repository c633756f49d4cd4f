// Configurations from lists of hosts. tests/faults/test_hosts.py shows that the daemon accepts
// them.
#include "client/ctl/hosts/imported_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm::ctl::imported_config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const ImportOptions kOptions{
    .path = "hosts", .cluster = "studio", .key_file = "/key", .port = 7470, .links = ""};

std::vector<v1::DaemonConfig> Made(const std::string& text,
                                   const ImportOptions& options = kOptions) {
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

std::string Wrong(const std::string& text) {
  Hostfile file;
  EXPECT_TRUE(ParseHostfile("hosts", text, file).ok());
  std::vector<ImportedConfig> configs;
  const Failure failure = MakeConfigs(file, kOptions, configs);
  EXPECT_EQ(failure.code, FailureCode::kInvalidArgument) << text;
  EXPECT_THAT(configs, IsEmpty());
  return failure.message;
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

// Why: a name in the file overrides the one that came with the key, and nodes of two names refuse
// each other.
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

// Why: a hostfile of JACCL has one address for each host, often in a slow network; only the RDMA
// devices name the cables, and a daemon without a connection on them has no rail there.
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

// The names of Linux's devices do not show their interfaces.
TEST(ImportedConfigTest, EnablesRdmaOnlyWhereADeviceIsNamed) {
  const auto made = Made(R"([{"ssh": "a", "ips": ["10.0.0.1"], "rdma": [null, "mlx5_0"]},
                             {"ssh": "b", "ips": ["10.0.0.2"], "rdma": []}])");
  EXPECT_TRUE(made[0].rdma().enabled());
  EXPECT_FALSE(made[0].has_discovery());
  EXPECT_FALSE(made[1].has_rdma());
}

TEST(ImportedConfigTest, SaysWhichHostLacksAnAddress) {
  EXPECT_THAT(Wrong("10.0.0.1\nmac-2\n"), HasSubstr("host mac-2: has no \"ips\""));
  EXPECT_THAT(Wrong(R"([{"ssh": "a", "ips": ["nonsense"]}])"), HasSubstr("got \"nonsense\""));
}

// Why: mlxcommd refuses a longer node_name, which was found out only where it was started.
TEST(ImportedConfigTest, RefusesANameThatNoNodeCanHave) {
  const auto host = [](const std::string& name) {
    return "[{\"ssh\": \"" + name + "\", \"ips\": [\"10.0.0.1\"]}]";
  };
  const std::string longest(63, 'n');
  EXPECT_EQ(Made(host("ada@" + longest))[0].node_name(), longest);
  EXPECT_EQ(Wrong(host("ada@" + longest + "n")),
            "hosts: host ada@" + longest +
                "n: expected a name of at most 63 bytes, for its node is called so, got 64: use a "
                "shorter one, such as an alias in ~/.ssh/config");
}

// Why: every interface has link-local addresses, so mlxcommd does not listen on, or connect to, one
// without its interface.
TEST(ImportedConfigTest, NeedsTheInterfaceOfALinkLocalAddress) {
  for (const char* const good : {"fe80::1%en2", "fd00::1", "fec0::1", "169.254.0.1"}) {
    EXPECT_EQ(Made("[{\"ssh\": \"a\", \"ips\": [\"" + std::string(good) + "\"]}]").size(), 1u)
        << good;
  }
  for (const std::string bad : {"fe80::1", "FEBF::1"}) {
    EXPECT_EQ(Wrong("[{\"ssh\": \"a\", \"ips\": [\"10.0.0.1\", \"" + bad + "\"]}]"),
              "hosts: host a: ips: expected a link-local address with its interface, as "
              "fe80::1%en2, got \"" +
                  bad + "\"");
    EXPECT_THAT(Wrong("10.0.0.1\n" + bad + "\n"),
                StartsWith("hosts: host " + bad + ": expected a link-local address with"));
  }
}

// Why: mlxcommd accepts only the bytes of host and interface names in an address, and does not
// listen on one whose interface has no name.
TEST(ImportedConfigTest, RefusesAnInterfaceThatIsNoName) {
  for (const char* const good : {"fe80::1%en2", "fe80::1%eth0.100", "fe80::1%br-lan_2"}) {
    EXPECT_THAT(Made(std::string(good) + "\n")[0].peers().listen(),
                ElementsAre("[" + std::string(good) + "]:7470"));
  }
  for (const std::string bad : {"fe80::1%", "fd00::1%", "fe80::1%e=a", "fe80::1%e n", "fe80::1%]",
                                "fe80::1%en2%en3", "fe80::1%caf\u00e9"}) {
    EXPECT_EQ(Wrong("[{\"ssh\": \"a\", \"ips\": [\"" + bad + "\"]}]"),
              "hosts: host a: ips: expected an interface of letters, digits, '.', '-' and '_' "
              "behind '%', as fe80::1%en2, got \"" +
                  bad + "\"");
  }
  EXPECT_THAT(Wrong("fe80::1%e=a\n"), StartsWith("hosts: host fe80::1%e=a: expected an interface"));
}

}  // namespace
}  // namespace mlxcomm::ctl::imported_config_test
