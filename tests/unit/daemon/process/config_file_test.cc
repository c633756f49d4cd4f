#include "daemon/process/config_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include <google/protobuf/text_format.h>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::config_file_test {
namespace {

using testing::HasSubstr;

std::string MistakeIn(const std::string& text) {
  const auto config = ParseConfig(text, "f");
  EXPECT_FALSE(config.ok()) << text;
  return std::string(config.status().message());
}

class ConfigFileTest : public FolderTest {
 protected:
  static std::string WhyNot(const std::string& path, const std::string& key_place) {
    return std::string(ReadConfigFile(path, key_place).status().message());
  }

  const std::string key_ = std::string(62, 'a') + "0F";
};

TEST(ParseConfigTest, FillsInDefaults) {
  const auto config = ParseConfig("", "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->cluster(), "default");
  EXPECT_FALSE(config->node_name().empty());
  EXPECT_FALSE(config->socket_path().empty());
  EXPECT_FALSE(config->state_directory().empty());
  EXPECT_EQ(config->clients().all_users(), ::geteuid() == 0) << "the service, or a user's own";
  EXPECT_EQ(config->clients().users(), v1::ClientConfig::BY_NAME);
}

TEST(ParseConfigTest, AcceptsLimitsForUsers) {
  EXPECT_TRUE(ParseConfig("clients { all_users: false users: SHARED operators_group: \"staff\" "
                          "clients_per_user_max: 4 operations_max: 64 }",
                          "f")
                  .ok());
  EXPECT_EQ(MistakeIn("clients {\n operations_max: 63\n operations_per_user_max: 4194305\n }"),
            "f:2:2: operations_max: expected 64 to 4194304, got 63\n"
            "f:3:2: operations_per_user_max: expected 0 to 4194304, got 4194305");
  EXPECT_THAT(MistakeIn("clients { clients_per_user_max: 4097 }"), HasSubstr("expected 0 to 4096"));
  EXPECT_THAT(MistakeIn("clients { groups_per_user_max: 4097 }"), HasSubstr("expected 0 to 4096"));
  EXPECT_THAT(MistakeIn("clients { users: BY_FACE }"), HasSubstr("BY_FACE"));
}

TEST(ParseConfigTest, ReportsTheLocationOfASyntaxError) {
  EXPECT_THAT(MistakeIn("cluster: \"a\"\nspeed: 1\n"), HasSubstr("f:2:"));
  EXPECT_THAT(MistakeIn("cluster: \"a\"\nspeed: 1\n"), HasSubstr("speed"));
  EXPECT_THAT(MistakeIn("drain_timeout_ms: \"long\"\n"), HasSubstr("f:1:19: "));
  EXPECT_THAT(MistakeIn("\nlog { level: LOUD }\n"), HasSubstr("f:2:"));  // After the value.
  EXPECT_THAT(MistakeIn("clients {\n"), HasSubstr("f:2:1: "));
}

TEST(ParseConfigTest, ReportsTheLocationAndTheBoundsOfAValue) {
  EXPECT_EQ(MistakeIn("\nclients {\n  clients_max: 5000\n}\n"),
            "f:3:3: clients_max: expected 1 to 4096, got 5000");
  EXPECT_EQ(MistakeIn("rdma { messages: 3 }"), "f:1:8: messages: expected 0, or 4 to 1024, got 3");
  EXPECT_EQ(MistakeIn("rdma { message_bytes: 5000 }"),
            "f:1:8: message_bytes: expected 0, or 4096 to 1048576, a multiple of 4096, got 5000");
  EXPECT_EQ(MistakeIn("drain_timeout_ms: 3600001"),
            "f:1:1: drain_timeout_ms: expected 0 to 3600000, got 3600001");
  EXPECT_EQ(MistakeIn("peers { heartbeat_interval_ms: 2000 heartbeat_timeout_ms: 2000 }"),
            "f:1:37: heartbeat_timeout_ms: expected 2001 to 600000, got 2000");
  EXPECT_EQ(MistakeIn("peers { reconnect_delay_min_ms: 500 reconnect_delay_max_ms: 499 }"),
            "f:1:37: reconnect_delay_max_ms: expected 500 to 600000, got 499");
}

TEST(ParseConfigTest, KeepsTheValuesOfTheText) {
  const auto config = ParseConfig(
      "peers { key_file: \"k\" connect: \"[fe80::1%en2]:7470\" security: TLS } "
      "clients { clients_max: 7 } metrics { listen: \"127.0.0.1:0\" } rdma { messages: 0 }",
      "f");
  ASSERT_TRUE(config.ok()) << config.status();
  std::string printed;
  ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(*config, &printed));
  const auto again = ParseConfig(printed, "f");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), config->SerializeAsString());
}

TEST(ParseConfigTest, AcceptsNamesThatAreText) {
  EXPECT_TRUE(ParseConfig("node_name: \"caf\\303\\251\"", "f").ok());
  EXPECT_TRUE(ParseConfig("cluster: \"" + std::string(63, 'c') + "\"", "f").ok());
  for (const std::string& bad : {std::string(), std::string(64, 'c'), std::string("a\\nb"),
                                 std::string("\\033[31m"), std::string("\\303")}) {
    EXPECT_THAT(MistakeIn("\nnode_name: \"" + bad + "\""), HasSubstr("f:2:1: node_name: expected"));
    EXPECT_THAT(MistakeIn("\ncluster: \"" + bad + "\""), HasSubstr("f:2:1: cluster: expected"));
  }
}

// Why: launch --nodes takes lists and ranges, so it could not name some nodes.
TEST(ParseConfigTest, RefusesNodeNamesThatCommandsCouldNotName) {
  EXPECT_THAT(MistakeIn("node_name: \"a b/c\""),
              HasSubstr("f:1:1: node_name: \"a b/c\" has a space or one of"));
  EXPECT_TRUE(ParseConfig("node_name: \"Mac-Studio.local_2\"", "f").ok());
}

TEST(ParseConfigTest, SuggestsTheFieldThatWasMeant) {
  EXPECT_EQ(MistakeIn("peers { listn: \"x\" }"),
            "f:1:14: unknown field \"listn\"; did you mean \"listen\"?");
  EXPECT_EQ(MistakeIn("colour: 1"),
            "f:1:7: unknown field \"colour\"; mlxcommd --print-config lists all fields");
}

TEST(ParseConfigTest, AcceptsAddressesWithPorts) {
  const std::string key = "key_file: \"k\" ";
  for (const char* const good :
       {"127.0.0.1:0", "127.0.0.1:7470", "[::1]:7470", "[fe80::1%en2]:1"}) {
    EXPECT_TRUE(ParseConfig("peers { " + key + "listen: \"" + good + "\" }", "f").ok()) << good;
  }
  EXPECT_TRUE(ParseConfig("peers { " + key + "connect: \"mac-b.local:7470\" }", "f").ok());
  for (const char* const bad :
       {"", "host", ":1", "host:", "host:x", "host:65536", "host:-1", "fe80::1:7470", "[]:1",
        "host: 1", "a b:1", "\\033[31m:1", "\\377:1", "[::1 ]:1"}) {
    EXPECT_THAT(MistakeIn("peers { " + key + "\nconnect: \"a:1\"\nconnect: \"" + bad + "\" }"),
                HasSubstr("f:3:1: connect: expected"))
        << bad;
  }
  for (const char* const bad :
       {"localhost:1", "1.2.3:1", "[1.2.3.4.5]:1", "127.0.0.1", "[x::1]:1"}) {
    EXPECT_THAT(MistakeIn("peers { " + key + "listen: \"" + bad + "\" }"),
                HasSubstr("listen: expected"))
        << bad;
  }
  EXPECT_THAT(MistakeIn("peers { " + key + "connect: \"a:0\" }"), HasSubstr("port 1 to 65535"));
}

// Why: every interface has such addresses, so the interface must be named.
TEST(ParseConfigTest, RequiresTheInterfaceOfALinkLocalAddress) {
  for (const std::string field : {"listen", "connect"}) {
    const auto text = [&](const std::string& address) {
      return "peers { key_file: \"k\" " + field + ": \"" + address + "\" }";
    };
    for (const char* const good : {"[fe80::1%en2]:7470", "[fe80::1%2]:7470", "[fd00::1]:7470"}) {
      EXPECT_TRUE(ParseConfig(text(good), "f").ok()) << field << " " << good;
    }
    for (const std::string bad : {"[fe80::1]:7470", "[fe80::1%]:7470", "[febf::1%]:7470"}) {
      EXPECT_EQ(MistakeIn(text(bad)), "f:1:23: " + field +
                                          ": expected an interface of this machine with a "
                                          "link-local address, such as \"[fe80::1%en2]:7470\", "
                                          "got \"" +
                                          bad + "\"");
    }
    // Why: otherwise the daemon would notice only when it listens or dials.
    EXPECT_THAT(MistakeIn(text("[::1%]:7470")), testing::ContainsRegex("(ADDRESS|HOST):PORT"));
  }
}

TEST(ParseConfigTest, RequiresAKeyIfThereArePeers) {
  EXPECT_THAT(MistakeIn("peers {\n  listen: \"127.0.0.1:1\"\n}"), HasSubstr("f:2:3: key_file"));
}

TEST(ParseConfigTest, AcceptsALoopbackAddressForMetrics) {
  for (const char* const good : {"127.0.0.1:9477", "127.1.2.3:0", "[::1]:9477"}) {
    EXPECT_TRUE(ParseConfig("metrics { listen: \"" + std::string(good) + "\" }", "f").ok()) << good;
  }
  for (const char* const bad : {"0.0.0.0:9477", "192.0.2.1:9477", "[::]:9477"}) {
    const std::string text = "metrics { listen: \"" + std::string(bad) + "\"";
    EXPECT_THAT(MistakeIn(text + " }"), HasSubstr("f:1:11: listen: "));
    EXPECT_THAT(MistakeIn(text + " }"), HasSubstr("allow_other_machines: true"));
    EXPECT_TRUE(ParseConfig(text + " allow_other_machines: true }", "f").ok()) << bad;
  }
  for (const char* const bad : {"[fe80::1]:9477", "[fe80::1%]:9477"}) {
    EXPECT_THAT(
        MistakeIn("metrics { listen: \"" + std::string(bad) + "\" allow_other_machines: true }"),
        HasSubstr("f:1:11: listen: expected an interface"));
  }
  EXPECT_THAT(MistakeIn("metrics { listen: \"localhost:9477\" }"), HasSubstr("no host name"));
  EXPECT_THAT(MistakeIn("metrics { listen: \"9477\" }"), HasSubstr("ADDRESS:PORT"));
}

TEST_F(ConfigFileTest, ReadsAFileAndItsKey) {
  const std::string key = Write("key", key_ + "\n");
  const std::string path =
      Write("c", "peers { listen: \"127.0.0.1:0\" key_file: \"" + key + "\" }", 0644);
  EXPECT_TRUE(ReadConfigFile(path, "").ok()) << ReadConfigFile(path, "").status();
  ::chmod(key.c_str(), 0640);
  EXPECT_EQ(std::string(ReadConfigFile(path, "").status().message()),
            path + ":1:31: key_file " + key +
                ": other users may read or write it; fix it with: chmod 600 " + key);
}

TEST_F(ConfigFileTest, RefusesWhatIsNotAFile) {
  const auto mistake = [](const std::string& path) {
    return std::string(ReadConfigFile(path, "").status().message());
  };
  EXPECT_THAT(mistake(folder_), HasSubstr("expected a configuration file"));
  EXPECT_THAT(mistake(folder_ + "/nowhere"), HasSubstr("No such file"));
  // Even a pipe without a writer does not block it.
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(mistake(pipe), HasSubstr("expected a configuration file"));
}

TEST_F(ConfigFileTest, RefusesAFileBeyondItsSize) {
  const std::string large(2 << 20, '#');
  EXPECT_THAT(std::string(ReadConfigFile(Write("large", large), "").status().message()),
              HasSubstr("at most a mebibyte"));
}

// Why: it would mean another file in each working directory.
TEST(ParseConfigTest, RefusesASocketPathThatDependsOnTheWorkingDirectory) {
  EXPECT_THAT(MistakeIn("socket_path: \"here/mlxcommd.sock\""),
              HasSubstr("f:1:1: socket_path: expected a path that begins with /, got "
                        "\"here/mlxcommd.sock\""));
}

// Why: a machine that has joined needs no further statement of its cluster.
TEST_F(ConfigFileTest, UsesTheNameInTheKeyFile) {
  const std::string key = Write("key", "cluster studio 2\n" + key_ + "\n");
  const std::string peers = "peers { listen: \"127.0.0.1:0\" key_file: \"" + key + "\" }";
  EXPECT_EQ(ReadConfigFile(Write("c", peers, 0644))->cluster(), "studio 2");
  EXPECT_EQ(ReadConfigFile(Write("c", peers + "cluster: \"own\"", 0644))->cluster(), "own");
}

TEST_F(ConfigFileTest, FindsTheKeyInItsDefaultPlace) {
  const std::string place = folder_ + "/key-place";
  const std::string path = Write("c", "peers { listen: \"127.0.0.1:0\" }", 0644);
  EXPECT_THAT(WhyNot(path, place), HasSubstr("key_file: required if there are peers"));
  Write("key-place", "cluster studio\n" + key_);
  for (const std::string& file : {path, std::string()}) {  // Also without a file.
    const auto config = ReadConfigFile(file, place);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->peers().key_file(), place);
    EXPECT_EQ(config->cluster(), "studio");
  }
  const std::string named = Write("named", key_);
  const std::string names = Write("d", "peers { key_file: \"" + named + "\" }", 0644);
  EXPECT_EQ(ReadConfigFile(names, place)->peers().key_file(), named);
  ::chmod(place.c_str(), 0644);
  EXPECT_THAT(WhyNot(path, place), HasSubstr("chmod 600 " + place));
}

TEST(ParseConfigTest, AcceptsDiscoverySettings) {
  const auto defaults = ParseConfig("", "f");
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->discovery().port(), 7470u);
  EXPECT_FALSE(defaults->discovery().has_enabled());
  EXPECT_EQ(defaults->discovery().interfaces_size(), 0);
  const auto config = ParseConfig(
      "discovery { enabled: false port: 65535 interfaces: \"en*\" interfaces: \"br-?0\" }", "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->discovery().enabled());
  EXPECT_EQ(config->discovery().port(), 65535u);
  EXPECT_EQ(config->discovery().interfaces(1), "br-?0");
}

TEST(ParseConfigTest, ReportsErrorsInDiscoverySettings) {
  for (const char* const port : {"0", "65536", "4294967295"}) {
    EXPECT_THAT(MistakeIn("discovery {\n port: " + std::string(port) + "\n}"),
                HasSubstr("f:2:2: port: expected 1 to 65535, got " + std::string(port)));
  }
  EXPECT_THAT(MistakeIn("discovery { port: -1 }"), HasSubstr("f:1:"));
  for (const std::string& name :
       {std::string(), std::string(48, 'e'), std::string("e\\n1"), std::string("\\xff")}) {
    EXPECT_THAT(MistakeIn("discovery {\n interfaces: \"en0\"\n interfaces: \"" + name + "\" }"),
                HasSubstr("f:3:2: interfaces: expected the name of an interface"));
  }
}

TEST(ParseConfigTest, AcceptsASecurityForAllAndForAnInterface) {
  const auto config = ParseConfig(
      "peers { security: TLS interface_security { interface: \"en0\" security: PLAIN } }", "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->peers().security(), v1::PeerConfig::TLS);
  EXPECT_EQ(config->peers().interface_security(0).security(), v1::PeerConfig::PLAIN);
  for (const char* const half : {"interface: \"en0\"", "security: TLS", ""}) {
    EXPECT_THAT(MistakeIn("peers {\n interface_security { " + std::string(half) + " } }"),
                HasSubstr("f:2:2: interface_security: expected"));
  }
}

TEST_F(ConfigFileTest, KeepsTheNodesIdentity) {
  const std::string state = folder_ + "/a/b";
  const auto first = ReadOrMakeNodeId(state);
  ASSERT_TRUE(first.ok()) << first.status();
  struct stat facts{};
  ASSERT_EQ(::stat((state + "/node-id").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(*ReadOrMakeNodeId(state), *first);
  // No temporary file remains.
  const std::filesystem::directory_iterator entries(state);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
  EXPECT_NE(*ReadOrMakeNodeId(folder_ + "/c"), *first);
}

TEST_F(ConfigFileTest, RefusesAnInvalidIdentity) {
  Write("node-id", "not hexadecimal");
  EXPECT_THAT(std::string(ReadOrMakeNodeId(folder_).status().message()), HasSubstr("remove it"));
}

// Why: a user who may write there can give this node another identity, or remove it.
TEST_F(ConfigFileTest, KeepsNoIdentityInAFolderThatOthersMayWriteTo) {
  const std::string state = folder_ + "/open";
  ASSERT_TRUE(ReadOrMakeNodeId(state).ok());
  ASSERT_EQ(::chmod(state.c_str(), 0777), 0);
  EXPECT_THAT(std::string(ReadOrMakeNodeId(state).status().message()),
              AllOf(HasSubstr(state), HasSubstr("chmod o-w")));
  ASSERT_EQ(::chmod(state.c_str(), 0755), 0);
  EXPECT_TRUE(ReadOrMakeNodeId(state).ok());
  if (::geteuid() != 0) return;  // Only root can give it away.
  ASSERT_EQ(::chown(state.c_str(), 61001, 61001), 0);
  EXPECT_THAT(std::string(ReadOrMakeNodeId(state).status().message()),
              HasSubstr("belongs to user 61001"));
}

TEST_F(ConfigFileTest, ReportsWhereTheIdentityCannotBeWritten) {
  const std::string blocked = Write("file", "") + "/state";
  EXPECT_THAT(std::string(ReadOrMakeNodeId(blocked).status().message()),
              HasSubstr("set state_directory"));
}

}  // namespace
}  // namespace mlxcomm::config_file_test
