// An event as a line.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// "2026-03-01 12:00:05.123 warning  link to b  rail en2 - en3 is down: ..."; local time.
std::string RenderEvent(const v1::EventsReply& event, bool colours);

}  // namespace mlxcomm::ctl
