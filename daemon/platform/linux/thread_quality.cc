#include "daemon/platform/thread_quality.h"

namespace mlxcomm::platform {

void ServeWhoWaits() {}

}  // namespace mlxcomm::platform
