#include "client/mlx/process_groups.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "client/lib/interrupt.h"
#include "client/mlx/operation_error.h"
#include "client/mlx/process_end.h"
#include "mlx/scheduler.h"

namespace mlxcomm::graph {
namespace {

using Key = std::tuple<std::string, std::uint32_t, std::uint32_t>;  // Job, rank, size.

struct Entry {
  std::mutex joining;  // Before All::mutex; held while waiting for the other ranks.
  AnyGroup group;      // Guarded by All::mutex.
};

struct All {
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::map<Key, std::shared_ptr<Entry>> entries;
  std::optional<mlxcomm_place> first;  // The first with more than one rank.
};

// A forked child gets its own, because the parent's mutexes may be locked there.
All& GetAll() {
  static std::atomic<All*> current{new All};
  All* all = current.load();
  if (all->process == ::getpid()) return *all;
  auto* const own = new All;
  if (current.compare_exchange_strong(all, own)) return *own;
  delete own;
  return *all;
}

// Returns whether the process can join again after the group's failure.
bool HasLostItsDaemon(const DaemonGroup& group) {
  const mlxcomm_code code = mlxcomm_group_failure(group.handle(), nullptr);
  return code == MLXCOMM_DAEMON_LOST || code == MLXCOMM_DAEMON_STOPPING;
}

AnyGroup Join(const mlxcomm_place& place, const JoinOptions& options) {
  if (place.size == 1) return std::make_shared<AloneGroup>();
  client::Watch(SIGINT, client::OnSignal::kSecond);  // A C program's handler usually returns.
  std::shared_ptr<DaemonGroup> joined;
  mlxcomm_error error{};
  const mlxcomm_code code = JoinJob(place.job, place.rank, place.size, options, joined, error);
  CheckOperation(code, error, nullptr);
  return joined;
}

std::vector<std::shared_ptr<DaemonGroup>> Worlds() {
  All& all = GetAll();
  const std::lock_guard lock(all.mutex);
  std::vector<std::shared_ptr<DaemonGroup>> worlds;
  for (auto& [key, entry] : all.entries) {
    if (auto world = std::dynamic_pointer_cast<DaemonGroup>(entry->group)) worlds.push_back(world);
  }
  return worlds;
}

const char* (*g_why)() = nullptr;
// The process that joined last: a child may join if its parent has not.
std::atomic<pid_t> g_process{0};

void Exit() {
  if (g_process != ::getpid()) return;  // A forked child that has not joined.
  const char* const fault = g_why == nullptr ? nullptr : g_why();
  const std::vector<std::shared_ptr<DaemonGroup>> worlds = Worlds();
  if (fault != nullptr) {
    for (const auto& world : worlds) mlxcomm_leave(world->handle(), fault);
  } else if (!worlds.empty()) {
    AwaitQueued();
    if (CloseGroups()) {
      for (const auto& world : worlds) mlxcomm_group_close(world->handle());
    }
  }
  NoteProcessHasEnded();
}

}  // namespace

AnyGroup GroupOf(const mlxcomm_place& place, const JoinOptions& options) {
  All& all = GetAll();
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(all.mutex);
    std::shared_ptr<Entry>& known = all.entries[{place.job, place.rank, place.size}];
    if (known == nullptr) known = std::make_shared<Entry>();
    entry = known;
  }
  const std::lock_guard joining(entry->joining);
  AnyGroup lost;  // Released before its place is joined again.
  {
    const std::lock_guard lock(all.mutex);
    const auto* const ours = dynamic_cast<const DaemonGroup*>(entry->group.get());
    if (entry->group != nullptr && (ours == nullptr || !HasLostItsDaemon(*ours))) {
      return entry->group;
    }
    lost.swap(entry->group);
  }
  lost.reset();
  AnyGroup joined = Join(place, options);
  const std::lock_guard lock(all.mutex);
  entry->group = joined;
  if (place.size > 1 && !all.first.has_value()) all.first = place;
  return joined;
}

mlxcomm_place DefaultPlace() {
  All& all = GetAll();
  {
    const std::lock_guard lock(all.mutex);
    if (all.first.has_value()) return *all.first;
  }
  mlxcomm_place place{};
  mlxcomm_error error{};
  if (mlxcomm_find_place(nullptr, &place, &error) != MLXCOMM_OK) {
    throw std::invalid_argument(error.message);
  }
  return place;
}

void StandFor(const DaemonGroup& failed, const std::shared_ptr<DaemonGroup>& rest) {
  All& all = GetAll();
  const std::lock_guard lock(all.mutex);
  for (auto& [key, entry] : all.entries) {
    if (entry->group.get() == &failed) entry->group = rest;
  }
}

void LeaveJobsAtEnd(const char* (*why)()) {
  g_process = ::getpid();
  static const int registered = [why] {
    g_why = why;
    // Exit handlers run in reverse order, and Exit needs MLX's scheduler, which some releases
    // destroy.
    mlx::core::scheduler::scheduler();
    return std::atexit(Exit);
  }();
  (void)registered;  // If the table is full, the daemon sees the process die.
}

}  // namespace mlxcomm::graph
