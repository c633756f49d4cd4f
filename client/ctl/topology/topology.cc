#include <memory>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/topology/render_topology.h"

namespace mlxcomm::ctl {
namespace {

struct TopologyOptions {
  std::string socket_path;
  bool json = false;
};

int RunTopology(const TopologyOptions& options) {
  v1::TopologyReply topology;
  Failure failure = FetchTopology(options.socket_path, topology);
  std::string text;
  if (failure.ok() && options.json) failure = ToJson(topology, text);
  if (!failure.ok()) return ReportFailure(failure);
  return WriteOut(options.json ? text : RenderTopology(topology, ColoursWanted()), "topology");
}

}  // namespace

Run AddTopology(CLI::App& topology, const Invocation&) {
  const auto options = std::make_shared<TopologyOptions>();
  AddSocket(topology, options->socket_path);
  topology.add_flag("--json", options->json, "Print JSON (TopologyReply in diagnostics.proto)");
  topology.footer(
      R"(Recognizes a pair, a ring, a line, a mesh or a switch. A cable shows its best rate in the
slower direction, and the round trip of its last heartbeat. mlxcommctl web draws a picture.)");
  return [options] { return RunTopology(*options); };
}

}  // namespace mlxcomm::ctl
