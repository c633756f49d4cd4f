// The hidden verb __trials: JSON for `python -m mlxcomm firstlight`.
#include <memory>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/doctor/collect.h"
#include "client/ctl/rdma/trials.h"

namespace mlxcomm::ctl {
namespace {

v1::InterfaceTrials FindInterfaces() {
  v1::InterfaceTrials all;
  for (const InterfaceFacts& one : CollectSystem({}).interfaces) {
    v1::TriedInterface& tried = *all.add_interfaces();
    tried.set_name(one.name);
    tried.set_hardware(one.hardware);
    tried.set_running(one.running);
    tried.set_thunderbolt(one.thunderbolt);
    tried.set_mtu(one.mtu);
    tried.set_bridge(one.bridge);
    tried.set_has_link_local(one.has_link_local);
  }
  return all;
}

v1::RdmaTrials FindRdma(const std::string& socket_path, RdmaTrialsOptions how) {
  if (how.config_file.empty()) how.config_file = FetchOwnCheckup(socket_path).config_file();
  return TryRdma(how);
}

}  // namespace

Run AddTrials(CLI::App& verb, const Invocation&) {
  const auto socket_path = std::make_shared<std::string>();
  const auto how = std::make_shared<RdmaTrialsOptions>();
  AddSocket(verb, *socket_path);
  AddConfig(verb, how->config_file);
  AddDuration(verb, "--for", how->all_timeout_ns, 1'000'000, 3600'000'000'000,
              "Start no trial after this time");
  verb.add_flag("--json")->description("Print JSON, which is the default");
  CLI::Option* const rdma =
      verb.add_flag("--rdma")->description("Try RDMA devices instead of listing interfaces");
  return [socket_path, how, rdma] {
    return WriteOut(
        rdma->count() > 0 ? JsonOf(FindRdma(*socket_path, *how)) : JsonOf(FindInterfaces()),
        "trials");
  };
}

}  // namespace mlxcomm::ctl
