#include "daemon/platform/power.h"

namespace mlxcomm::platform {

struct SleepGuard::Keeper {};

void ServeWhoWaits() {}

SleepGuard::SleepGuard() = default;
SleepGuard::~SleepGuard() = default;
void SleepGuard::Want(bool) {}

}  // namespace mlxcomm::platform
