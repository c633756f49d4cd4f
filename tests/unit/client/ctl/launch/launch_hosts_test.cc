// The hosts of `--nodes`, chosen from the daemon's status, which the test sets.
#include "client/ctl/launch/launch_hosts.h"

#include <gmock/gmock.h>

#include <string>

#include "client/ctl/daemon/daemon_call.h"

namespace mlxcomm::ctl {
namespace launch_hosts_test {
namespace {

using testing::EndsWith;
using testing::StartsWith;

v1::StatusReply g_status;

class LaunchHostsTest : public testing::Test {
 protected:
  void SetUp() override { g_status = {}; }
  static void Add(const std::string& name, const std::string& id) {
    v1::NodeStatus& node = *g_status.add_nodes();
    node.set_name(name);
    node.set_id(id);
    node.set_state("up");
  }
  static std::string WhyNot() {
    LaunchOptions options;
    options.nodes = "all";
    Hostfile file;
    return ChooseHosts(options, file).message;
  }
};

// Why: `bench --nodes` chooses hosts in the same way, but has no option --hosts.
TEST_F(LaunchHostsTest, ANodeWithoutANameForSshLeadsToLaunch) {
  Add("root@elsewhere", "1");
  EXPECT_THAT(WhyNot(), StartsWith("--nodes: node \"root@elsewhere\" has no name for ssh"));
  EXPECT_THAT(WhyNot(), EndsWith("or name hosts (mlxcommctl launch --hosts)"));
}

TEST_F(LaunchHostsTest, NodesWithTheSameNameLeadToLaunch) {
  Add("mac-1~0a1b", "0a1b2c3d");
  EXPECT_THAT(WhyNot(), StartsWith("--nodes: several nodes are called mac-1, "));
  EXPECT_THAT(WhyNot(), EndsWith("or name hosts (mlxcommctl launch --hosts)"));
}

}  // namespace
}  // namespace launch_hosts_test

// Instead of a daemon's.
Failure FetchStatus(const std::string&, v1::StatusReply& reply, std::uint64_t) {
  reply = launch_hosts_test::g_status;
  return {};
}

}  // namespace mlxcomm::ctl
