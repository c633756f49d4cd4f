// Why a link is not up, by all that its node says of it: its own reason tells how it ended, and its
// connections tell what stands in their way now, which may be another machine or another key.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

struct LinkCause {
  v1::LinkReason::Value reason = v1::LinkReason::none;
  std::string detail;  // For people.
};
LinkCause CauseOf(const v1::LinkStatus& link);

// What answers is of another cluster, or has another key.
bool IsOfAnotherKey(v1::LinkReason::Value reason);

}  // namespace mlxcomm::ctl
