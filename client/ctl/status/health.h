// The one sentence on how a cluster is, and what to look at first.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

struct Health {
  bool good = true;
  std::string text;  // With names as nodes and jobs have them; see Shown.
};
Health HealthOf(const v1::StatusReply& status);

// What a node that drains waits for, and how long: "1 job, 3 s left".
std::string DrainText(const v1::DrainStatus& drain);
// What a node waits for that was told to restart: "restarts as 0.2.0 once 2 clients have ended".
std::string RestartText(const v1::RestartStatus& restart);

// A link leads to that node, whose state is shown there.
bool IsLinked(const v1::NodeStatus& node, const std::string& id);

}  // namespace mlxcomm::ctl
