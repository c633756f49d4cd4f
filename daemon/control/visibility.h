// What one user may see of all users' work: its own jobs. Root, the daemon's own user and the
// operators see all (intake/user_directory.h); all users see everything about nodes, links and
// rails. Hidden items are counted, without names.
#pragma once

#include <string>

#include "daemon/intake/user_directory.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::control {

// `user`: the owner. Users who share have no name, and see each other's jobs.
inline bool MaySeeAll(const intake::User& viewer) { return viewer.sees_all || viewer.name.empty(); }
inline bool MaySee(const intake::User& viewer, const std::string& user) {
  return MaySeeAll(viewer) || viewer.name == user;
}

// Removes from a whole reply, of all nodes, what the viewer may not see.
void HideOthers(const intake::User& viewer, v1::StatusReply& reply);

}  // namespace mlxcomm::control
