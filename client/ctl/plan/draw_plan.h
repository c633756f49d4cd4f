// A PlanReply as a picture in Graphviz's language (https://graphviz.org/doc/info/lang.html),
// for `mlxcommctl plan ... --dot | dot -Tsvg`.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Nodes in a circle, each with its ranks; an arrow for each directed link that carries data, with
// the amount.
std::string DrawNodes(const v1::PlanReply& plan);

// Every step that the reply has: grey arrows are dependencies on a node, blue ones messages.
std::string DrawSteps(const v1::PlanReply& plan);

}  // namespace mlxcomm::ctl
