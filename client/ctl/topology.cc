#include "client/ctl/daemon_call.h"
#include "client/ctl/draw_topology.h"
#include "client/ctl/json_text.h"
#include "client/ctl/output.h"
#include "client/ctl/render_topology.h"
#include "client/ctl/terminal.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {

int RunTopology(const TopologyOptions& options) {
  v1::TopologyReply topology;
  Failure failure = FetchTopology(options.socket_path, topology);
  std::string text;
  if (failure.ok() && options.form == TopologyForm::kJson) failure = ToJson(topology, text);
  if (!failure.ok()) return ReportFailure(failure);
  switch (options.form) {
    case TopologyForm::kJson: break;
    case TopologyForm::kDot: text = DrawTopologyDot(topology); break;
    case TopologyForm::kSvg: text = DrawTopologySvg(topology); break;
    case TopologyForm::kText: text = RenderTopology(topology, ColoursWanted()); break;
  }
  return WriteOut(text, "topology");
}

}  // namespace mlxcomm::ctl
