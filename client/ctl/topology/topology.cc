#include <memory>
#include <utility>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/topology/draw_topology.h"
#include "client/ctl/topology/graphviz.h"
#include "client/ctl/topology/render_topology.h"

namespace mlxcomm::ctl {
namespace {

enum class TopologyForm { kText, kJson, kDot, kSvg };
struct TopologyOptions {
  std::string socket_path;
  TopologyForm form = TopologyForm::kText;
};

int RunTopology(const TopologyOptions& options) {
  v1::TopologyReply topology;
  Failure failure = FetchTopology(options.socket_path, topology);
  std::string text;
  if (failure.ok() && options.form == TopologyForm::kJson) failure = ToJson(topology, text);
  if (!failure.ok()) return ReportFailure(failure);
  switch (options.form) {
    case TopologyForm::kJson: break;
    case TopologyForm::kDot: text = DrawTopology(topology); break;
    case TopologyForm::kSvg: {
      auto drawn = SvgOf(DrawTopology(topology));
      if (!drawn.ok()) return Fail(kExitFailed, std::string(drawn.status().message()));
      text = *std::move(drawn);
      break;
    }
    case TopologyForm::kText: text = RenderTopology(topology, ColoursWanted()); break;
  }
  return WriteOut(text, "topology");
}

}  // namespace

Run AddTopology(CLI::App& topology, const Invocation&) {
  const auto made = std::make_shared<TopologyOptions>();
  TopologyOptions& options = *made;
  AddSocket(topology, options.socket_path);
  const auto form = [&options](TopologyForm which) {
    return [&options, which](std::int64_t) { options.form = which; };
  };
  CLI::Option* const json = topology.add_flag_function(
      "--json", form(TopologyForm::kJson), "For programs (TopologyReply of diagnostics.proto)");
  CLI::Option* const dot = topology.add_flag_function("--dot", form(TopologyForm::kDot),
                                                      "A picture in Graphviz's language");
  CLI::Option* const svg = topology.add_flag_function("--svg", form(TopologyForm::kSvg),
                                                      "A picture, which Graphviz's dot draws");
  json->excludes(dot)->excludes(svg);
  dot->excludes(svg);
  topology.footer(
      R"(A pair, a ring, a line, a mesh or a switch. A cable shows the most that it has carried,
and its last heartbeat's round trip. In a picture the cables of the ring are thick, and
one that is down is dashed and red; of more than 16 cables only those have figures.)");
  return [made] { return RunTopology(*made); };
}

}  // namespace mlxcomm::ctl
