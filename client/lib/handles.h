// The handles of the C interface: a connection with the groups that are open on it, and a group
// with its latched failure, its deadline and its plan.
//
//   connection ──▶ session (Connection)         The world group's end is the job's: then
//        '──▶ groups: world, parts, rests       the others still open are latched CANCELLED.
//
// Owner: the user, from the call that makes it to the one that closes it. Thread: any; order of
// locks: connection, group, then those of Connection. Memory: a group's facts never change after it
// was made.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "client/lib/connection.h"
#include "client/lib/mlxcomm.h"
#include "proto/types/failure.h"
#include "proto/types/operation.h"

struct mlxcomm_connection {
  std::unique_ptr<mlxcomm::client::Connection> session;
  std::atomic<bool> joined = false;
  std::mutex mutex;
  std::vector<mlxcomm_group*> groups;  // Open.
};

struct mlxcomm_group {
  mlxcomm_connection* connection = nullptr;
  mlxcomm::client::GroupFacts facts;
  bool with_daemon = false;  // False for a group of one rank, which the daemon does not know.
  std::atomic<std::uint64_t> timeout_ns = 0;  // 0 means the daemon's default.
  std::atomic<mlxcomm::PlanKind> plan = mlxcomm::PlanKind::kAutomatic;

  // Guarded by the connection's mutex.
  bool is_world = false;
  bool left = false;  // The process has left the job, and so this group.

  std::mutex split_mutex;    // Orders splits, so that their numbers are the same on all ranks.
  std::uint64_t splits = 0;  // Counts those that this group has begun.

  std::atomic<bool> failed = false;  // True if `failure` is set; read without the lock.
  mutable std::mutex mutex;
  mlxcomm::Failure failure;             // Latched.
  std::uint64_t local_tickets_end = 0;  // Groups of one rank: lower tickets are in use.

  std::uint32_t rank() const { return facts.rank; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(facts.members.size()); }
  bool alone() const { return facts.members.size() == 1; }
};

namespace mlxcomm::client {

// The first failure stays.
void Latch(mlxcomm_group& group, const Failure& failure);
Failure Latched(const mlxcomm_group& group);
// Takes no lock.
inline bool HasFailed(const mlxcomm_group& group) {
  return group.failed.load(std::memory_order_acquire);
}

using Request = mlxcomm_request;

// One operation, from the caller's arguments to its end (operations.cc). Tables of counts are read
// before Begin returns.
Failure Begin(mlxcomm_group& group, const Request& request, std::uint64_t& ticket);
Failure Finish(mlxcomm_group& group, std::uint64_t ticket);

// Why calls on it are refused at once; it may be NULL.
Refusal CheckUsable(const mlxcomm_group* group);
Refusal CheckUsable(const mlxcomm_connection* connection);

}  // namespace mlxcomm::client
