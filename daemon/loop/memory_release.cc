#include "daemon/loop/memory_release.h"

#include <system_error>

#include "daemon/platform/machine.h"

namespace mlxcomm {

MemoryRelease::~MemoryRelease() {
  if (thread_.joinable()) thread_.join();
}

void MemoryRelease::Start() {
  if (asked_.fetch_add(1) > 0) return;     // The thread that runs will see it.
  if (thread_.joinable()) thread_.join();  // It has come to its end.
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    asked_.store(0);
  }
}

void MemoryRelease::Run() {
  std::uint32_t seen = asked_.load();
  do {
    platform::ReleaseFreeMemory();
  } while (!asked_.compare_exchange_strong(seen, 0));
}

}  // namespace mlxcomm
