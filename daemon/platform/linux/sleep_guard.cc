#include "daemon/platform/sleep_guard.h"

namespace mlxcomm::platform {

struct SleepGuard::Keeper {};

SleepGuard::SleepGuard() = default;
SleepGuard::~SleepGuard() = default;
void SleepGuard::Want(bool) {}

}  // namespace mlxcomm::platform
