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
                        v1::UseStatus& reported) {
    reported.set_clients(used.clients);
    reported.set_clients_max(most.clients);
    reported.set_arena_bytes(used.arena_bytes);
    reported.set_arena_bytes_max(most.arena_bytes);
    reported.set_operations(used.operations);
    reported.set_operations_max(most.operations);
  };
  write(use.used, use.all, *node.mutable_use());
  std::vector<std::string> users;
  for (const intake::UserUse& user : use.users) {
    users.push_back(user.name);
    v1::UseStatus& reported = *node.add_users();
    reported.set_user(user.name.empty() ? absl::StrCat("#", user.uid) : user.name);
    write(user.used, use.per_user, reported);
  }
  return users;
}

void DescribeEnds(const guard::EndCounts& ended, v1::NodeStatus& node) {
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (ended[i] == 0) continue;
    v1::EndedConnections& reported = *node.add_control_connections_ended();
    reported.set_reason(guard::kEndReasonTexts[i].word);
    reported.set_count(ended[i]);
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
      v1::InterfaceCheckup& reported = *checkup.add_interfaces();
      reported.set_name(found.name);
      reported.set_up(found.up);
      reported.set_running(found.running);
      reported.set_loopback(found.loopback);
      reported.set_mtu(platform::InterfaceMtu(found.name));
      for (const std::string& address : found.addresses) reported.add_addresses(address);
    }
  }
  return checkup;
}

}  // namespace mlxcomm
