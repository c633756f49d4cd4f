#include "daemon/control/visibility.h"

#include <algorithm>
#include <cstdint>

namespace mlxcomm::control {

void HideOthers(const intake::User& viewer, v1::StatusReply& reply) {
  if (MaySeeAll(viewer)) return;
  auto& jobs = *reply.mutable_jobs();
  const auto others =
      std::stable_partition(jobs.begin(), jobs.end(),
                            [&](const v1::JobStatus& job) { return MaySee(viewer, job.user()); });
  reply.set_jobs_of_others(static_cast<std::uint32_t>(jobs.end() - others));
  jobs.erase(others, jobs.end());
  for (v1::NodeStatus& node : *reply.mutable_nodes()) {
    auto& users = *node.mutable_users();
    users.erase(std::remove_if(users.begin(), users.end(),
                               [&](const v1::UseStatus& use) { return use.user() != viewer.name; }),
                users.end());
  }
}

}  // namespace mlxcomm::control
