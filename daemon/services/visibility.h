// Decides what a user may see: its own jobs, and everything about nodes, links and rails. Root, the
// daemon's user and the operators see all jobs (intake/user_directory.h). Hidden jobs are counted,
// without names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "daemon/intake/user_directory.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::services {

// `user` owns the job. Users without a name share jobs, so they see all.
inline bool MaySeeAll(const intake::User& viewer) { return viewer.sees_all || viewer.name.empty(); }
inline bool MaySee(const intake::User& viewer, const std::string& user) {
  return MaySeeAll(viewer) || viewer.name == user;
}

// Removes what the viewer may not see from a reply with all nodes.
inline void HideOthers(const intake::User& viewer, v1::StatusReply& reply) {
  if (MaySeeAll(viewer)) return;
  auto& jobs = *reply.mutable_jobs();
  const auto others = std::ranges::stable_partition(
      jobs, [&](const v1::JobStatus& job) { return MaySee(viewer, job.user()); });
  reply.set_jobs_of_others(static_cast<std::uint32_t>(others.size()));
  jobs.erase(others.begin(), jobs.end());
  auto& ended = *reply.mutable_ended_jobs();
  const auto hidden = std::ranges::remove_if(
      ended, [&](const v1::EndedJob& job) { return !MaySee(viewer, job.user()); });
  ended.erase(hidden.begin(), ended.end());
  for (v1::NodeStatus& node : *reply.mutable_nodes()) {
    auto& users = *node.mutable_users();
    const auto of_others = std::ranges::remove_if(
        users, [&](const v1::UseStatus& use) { return use.user() != viewer.name; });
    users.erase(of_others.begin(), users.end());
  }
}

}  // namespace mlxcomm::services
