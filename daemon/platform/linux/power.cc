#include "daemon/platform/power.h"

namespace mlxcomm::platform {

struct SleepGuard::Keeper {};

void RaiseThreadPriority() {}

SleepGuard::SleepGuard() = default;
SleepGuard::~SleepGuard() = default;
void SleepGuard::Want(bool) {}

}  // namespace mlxcomm::platform
