#include "daemon/platform/interface_watch.h"

#include <algorithm>
#include <utility>

namespace mlxcomm::platform {

std::vector<InterfaceChange> Compare(const std::vector<NetworkInterface>& before,
                                     const std::vector<NetworkInterface>& now) {
  const auto find = [](const std::vector<NetworkInterface>& in, const std::string& name) {
    return std::ranges::find_if(in, [&](const auto& one) { return one.name == name; });
  };
  std::vector<InterfaceChange> changes;
  for (const NetworkInterface& old : before) {
    const auto found = find(now, old.name);
    if (old.running && (found == now.end() || !found->running)) {
      changes.push_back({old.name, InterfaceChange::Kind::kDown});
    }
  }
  for (const NetworkInterface& one : now) {
    const auto found = find(before, one.name);
    if (one.running && (found == before.end() || !(*found == one))) {
      changes.push_back({one.name, InterfaceChange::Kind::kUp});
    }
  }
  return changes;
}

absl::StatusOr<InterfaceWatch> InterfaceWatch::Create() {
  absl::StatusOr<FileDescriptor> events = OpenInterfaceEvents();
  if (!events.ok()) return events.status();
  InterfaceWatch watch(*std::move(events));
  absl::StatusOr<std::vector<NetworkInterface>> seen = ListInterfaces();
  if (!seen.ok()) return seen.status();
  watch.seen_ = *std::move(seen);
  return watch;
}

std::vector<InterfaceChange> InterfaceWatch::Read() {
  // Drain first, so that no later event is lost.
  const std::vector<std::string> ready = DrainInterfaceEvents(events_);
  absl::StatusOr<std::vector<NetworkInterface>> now = ListInterfaces();
  if (!now.ok()) return {};  // Retried at the next event; until then heartbeats show it.
  std::vector<InterfaceChange> changes = Compare(seen_, *now);
  seen_ = *std::move(now);
  for (const NetworkInterface& one : seen_) {
    const InterfaceChange up{one.name, InterfaceChange::Kind::kUp};
    if (!one.running || std::ranges::count(ready, one.name) == 0) continue;
    if (std::ranges::count(changes, up) == 0) changes.push_back(up);
  }
  return changes;
}

}  // namespace mlxcomm::platform
