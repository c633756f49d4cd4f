#include "daemon/loop/own_facts.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "daemon/platform/interfaces.h"
#include "daemon/platform/system_facts.h"

namespace mlxcomm {

std::vector<std::string> DescribeUse(const intake::Intake& intake, v1::NodeStatus& node) {
  const intake::IntakeCounters counters = intake.counters();
  node.set_clients(counters.clients);
  node.set_clients_refused(counters.refused);
  node.set_sessions_ended_for_garbage(counters.ended_for_garbage);
  node.set_arena_bytes(counters.arena_bytes);
  const intake::UseOfLimits use = intake.use();
  const auto write = [](const intake::Amounts& used, const intake::Amounts& most,
                        v1::UseStatus& told) {
    told.set_clients(used.clients);
    told.set_clients_max(most.clients);
    told.set_arena_bytes(used.arena_bytes);
    told.set_arena_bytes_max(most.arena_bytes);
    told.set_operations(used.operations);
    told.set_operations_max(most.operations);
  };
  write(use.used, use.all, *node.mutable_use());
  std::vector<std::string> users;
  for (const intake::UserUse& user : use.users) {
    users.push_back(user.name);
    v1::UseStatus& told = *node.add_users();
    told.set_user(user.name.empty() ? absl::StrCat("#", user.uid) : user.name);
    write(user.used, use.per_user, told);
  }
  return users;
}

void DescribeEnds(const control::EndCounts& ended, v1::NodeStatus& node) {
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (ended[i] == 0) continue;
    v1::EndedConnections& told = *node.add_control_connections_ended();
    told.set_reason(control::EndReasonWord(static_cast<control::EndReason>(i)));
    told.set_count(ended[i]);
  }
}

v1::NodeCheckup ExamineSystem() {
  v1::NodeCheckup checkup;
  checkup.set_system(platform::SystemName());
  checkup.set_open_files_max(platform::OpenFilesMax());
  checkup.set_open_files(platform::OpenFiles());
  checkup.set_locked_bytes_max(platform::LockedBytesMax());
  if (const auto interfaces = platform::ListInterfaces(); interfaces.ok()) {
    for (const platform::NetworkInterface& found : *interfaces) {
      v1::InterfaceCheckup& told = *checkup.add_interfaces();
      told.set_name(found.name);
      told.set_up(found.up);
      told.set_running(found.running);
      told.set_loopback(found.loopback);
      told.set_mtu(platform::InterfaceMtu(found.name));
      for (const std::string& address : found.addresses) told.add_addresses(address);
    }
  }
  return checkup;
}

}  // namespace mlxcomm
