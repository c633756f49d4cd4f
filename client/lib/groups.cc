// The calls of the C interface that make and end groups: joining a job, splitting, shrinking,
// closing.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "client/lib/answer.h"
#include "client/lib/find_place.h"
#include "client/lib/group_split.h"
#include "client/lib/handles.h"
#include "client/lib/mlxcomm.h"
#include "proto/types/short_list.h"

using mlxcomm::Failure;
using mlxcomm::FailureCode;
using mlxcomm::kNoRank;
using mlxcomm::client::CheckName;
using mlxcomm::client::CheckUsable;
using mlxcomm::client::GroupFacts;
using mlxcomm::client::Guarded;
using mlxcomm::client::Invalid;
using mlxcomm::client::Latched;
using mlxcomm::client::Refusal;
using mlxcomm::client::Tell;
using mlxcomm::client::TellFine;

namespace {

constexpr std::size_t kJobBytesMax = 200;
constexpr std::size_t kPartNameBytesMax = 100;

// Undoes what has been done, unless all went well: a call may run out of memory anywhere.
// Exceptions of the undoing itself, for the same reason, are dropped.
template <typename Undo>
class UnlessKept {
 public:
  explicit UnlessKept(Undo undo) : undo_(std::move(undo)) {}
  ~UnlessKept() {
    if (kept_) return;
    Guarded(nullptr, [this] {
      undo_();
      return MLXCOMM_OK;
    });
  }
  UnlessKept(const UnlessKept&) = delete;
  UnlessKept& operator=(const UnlessKept&) = delete;
  void Keep() { kept_ = true; }

 private:
  Undo undo_;
  bool kept_ = false;
};

mlxcomm_group* Open(std::unique_ptr<mlxcomm_group> group) {
  const std::lock_guard lock(group->connection->mutex);
  group->connection->groups.push_back(group.get());
  return group.release();
}

// A job of one rank: no other process has to know of it.
GroupFacts AloneHere(const char* job) {
  utsname system{};
  const char* const node = ::uname(&system) == 0 ? system.nodename : "localhost";
  GroupFacts facts;
  facts.name = job;
  facts.members = {{node, static_cast<std::uint64_t>(::getpid())}};
  return facts;
}

Failure CheckJoin(const char* job, std::uint32_t rank, std::uint32_t size, mlxcomm_group** world) {
  if (job == nullptr || world == nullptr) {
    return Invalid("job and world: expected a pointer, got NULL");
  }
  if (size == 0 || rank >= size) {
    return Invalid("rank " + std::to_string(rank) + ": expected below size " +
                   std::to_string(size) + ", which is at least 1");
  }
  return CheckName("job", job, kJobBytesMax);
}

// A name that follows from variables that differ between ranks makes each rank a job of its own.
Failure WithOrigin(Failure failure, const char* job) {
  mlxcomm::client::Place place;
  if (failure.code != FailureCode::kDeadlineExceeded ||
      !FindPlace(mlxcomm::client::ProcessEnvironment, {}, place).ok() || place.job != job ||
      place.job_from.empty()) {
    return failure;
  }
  const std::string origin = " The job's name follows from " + place.job_from +
                             ", which must say the same on all ranks; MLXCOMM_JOB=NAME settles it.";
  failure.message =
      mlxcomm::Shortened(failure.message, mlxcomm::kFailureMessageBytesMax - origin.size()) +
      origin;
  return failure;
}

bool HasLeft(mlxcomm_group& group) {
  const std::lock_guard lock(group.connection->mutex);
  return group.left;
}

bool IsWorld(mlxcomm_group& group) {
  const std::lock_guard lock(group.connection->mutex);
  return group.is_world;
}

// What the daemon has to do when a group is closed.
enum class Leaving { kNothing, kRelease, kJob };

// `how` makes the text, for which there may be no memory; then the daemon gets the call without it.
template <typename How>
void LatchLeft(mlxcomm_group& group, How how) {
  try {
    mlxcomm::client::Latch(
        group, {FailureCode::kCancelled, kNoRank, "this process has left the job" + how()});
  } catch (const std::bad_alloc&) {
    mlxcomm::client::Latch(group, {FailureCode::kCancelled, kNoRank, {}});
  }
}

Leaving Forget(mlxcomm_group* group, bool& was_world) {
  const std::lock_guard lock(group->connection->mutex);
  std::vector<mlxcomm_group*>& open = group->connection->groups;
  std::erase(open, group);
  was_world = group->is_world;
  if (group->is_world) {
    for (mlxcomm_group* const other : open) {
      if (!other->with_daemon) continue;
      other->left = true;
      LatchLeft(*other, [other] {
        return " (its world group was closed), and group " + other->facts.name + " with it";
      });
    }
  }
  if (!group->with_daemon || group->left) return Leaving::kNothing;
  if (Latched(*group).code == FailureCode::kDaemonLost) return Leaving::kNothing;
  return group->is_world ? Leaving::kJob : Leaving::kRelease;
}

}  // namespace

extern "C" {

MLXCOMM_API mlxcomm_code mlxcomm_join(mlxcomm_connection* connection, const char* job,
                                      uint32_t rank, uint32_t size, uint64_t timeout_ns,
                                      mlxcomm_group** world, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(connection)) return Tell(*refusal, error);
    if (Failure failure = CheckJoin(job, rank, size, world); !failure.ok()) {
      return Tell(failure, error);
    }
    if (connection->joined.exchange(true)) {
      return Tell(Invalid("this connection has joined a job already: use another one"), error);
    }
    UnlessKept may_try_again([&] { connection->joined = false; });
    auto group = std::make_unique<mlxcomm_group>();
    group->connection = connection;
    group->with_daemon = size > 1;
    group->is_world = true;
    if (size == 1) {
      group->facts = AloneHere(job);
    } else {
      const Failure failure = connection->session->Join(job, rank, size, timeout_ns, group->facts);
      if (!failure.ok()) return Tell(WithOrigin(failure, job), error);
    }
    UnlessKept leaves([&] {
      if (size > 1) connection->session->Leave(nullptr);
    });
    *world = Open(std::move(group));
    leaves.Keep();
    may_try_again.Keep();
    return TellFine(error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_split(mlxcomm_group* group, int32_t color, int32_t key,
                                       const char* name, uint64_t timeout_ns, mlxcomm_group** part,
                                       mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Tell(*refusal, error);
    if (part == nullptr) return Tell(Invalid("part: expected a pointer, got NULL"), error);
    if (color < MLXCOMM_NO_GROUP) {
      return Tell(
          Invalid("color " + std::to_string(color) + ": expected 0 or more, or MLXCOMM_NO_GROUP"),
          error);
    }
    const std::string shown = name != nullptr ? name : std::to_string(color);
    if (Failure failure = CheckName("name", shown, kPartNameBytesMax); !failure.ok()) {
      return Tell(failure, error);
    }
    *part = nullptr;
    std::unique_ptr<mlxcomm_group> made;
    const Failure failure =
        mlxcomm::client::SplitGroup(*group, {color, key, shown, timeout_ns}, made);
    if (made != nullptr) {
      UnlessKept released([&, id = made->facts.id, with_daemon = made->with_daemon] {
        if (with_daemon) group->connection->session->Release(id);
      });
      *part = Open(std::move(made));
      released.Keep();
    }
    return Tell(failure, error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_shrink(mlxcomm_group* group, uint64_t timeout_ns,
                                        mlxcomm_group** rest, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Tell(*refusal, error);
    if (rest == nullptr) return Tell(Invalid("rest: expected a pointer, got NULL"), error);
    *rest = nullptr;
    if (group->alone()) {
      return Tell(Invalid("group " + group->facts.name +
                          ": has not failed, and has one rank; expected a group that has failed"),
                  error);
    }
    const Failure latched = Latched(*group);
    if (latched.code == FailureCode::kDaemonLost || HasLeft(*group)) return Tell(latched, error);
    if (timeout_ns == 0) timeout_ns = group->timeout_ns.load();
    GroupFacts facts;
    const Failure failure = group->connection->session->Shrink(group->facts.id, timeout_ns, facts);
    if (!failure.ok()) return Tell(failure, error);
    UnlessKept released([&, id = facts.id] { group->connection->session->Release(id); });
    auto made = mlxcomm::client::MakeGroup(*group, std::move(facts), /*with_daemon=*/true);
    // A world's new group stands for the job: closing the old one does not leave it.
    made->is_world = IsWorld(*group);
    *rest = Open(std::move(made));
    released.Keep();
    const std::lock_guard lock(group->connection->mutex);
    group->is_world = false;
    return TellFine(error);
  });
}

MLXCOMM_API void mlxcomm_leave(mlxcomm_group* group, const char* why) {
  Guarded(nullptr, [&] {
    if (CheckUsable(group).has_value() || why == nullptr || !group->with_daemon) return MLXCOMM_OK;
    bool had_left = true;
    {
      const std::lock_guard lock(group->connection->mutex);
      for (mlxcomm_group* const open : group->connection->groups) {
        if (!open->with_daemon || std::exchange(open->left, true)) continue;
        had_left = false;
        LatchLeft(*open, [why] { return std::string(": ") + why; });
      }
    }
    if (!had_left) group->connection->session->Leave(why);
    return MLXCOMM_OK;
  });
}

MLXCOMM_API void mlxcomm_group_close(mlxcomm_group* group) {
  const std::unique_ptr<mlxcomm_group> gone(group);
  // In a forked child, locks may be held for ever.
  if (group == nullptr || !group->connection->session->usable()) return;
  bool was_world = false;
  Leaving leaving = Leaving::kNothing;
  Guarded(nullptr, [&] {
    leaving = Forget(group, was_world);
    return MLXCOMM_OK;
  });
  Guarded(nullptr, [&] {
    if (leaving == Leaving::kRelease) group->connection->session->Release(group->facts.id);
    if (leaving == Leaving::kJob) group->connection->session->Leave(nullptr);
    return MLXCOMM_OK;
  });
  if (was_world) group->connection->joined = false;
}

}  // extern "C"
