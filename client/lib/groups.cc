// The calls of the C interface that make and end groups: join, split, shrink, leave, close.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/answer.h"
#include "client/lib/clock.h"
#include "client/lib/find_place.h"
#include "client/lib/handles.h"
#include "client/lib/mlxcomm.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::client {
namespace {

// To split a group, its ranks exchange color and key, those of one color ask their daemons for the
// part, and all exchange whether they have it.
//
//   all_gather (color, key) ─▶ RPC Split, with the ranks ─▶ all_gather the outcomes
//                               (none for a part of one rank)
//
// The second exchange is a barrier too: no rank uses a part before all its ranks have it. If one
// rank fails to make it, the others release the part and return an error that names that rank and
// its reason. Other parts, and the group that was split, continue.
struct ColorAndKey {
  std::int32_t color = 0;  // MLXCOMM_NO_GROUP: the rank is in no part.
  std::int32_t key = 0;
};
static_assert(sizeof(ColorAndKey) == 2 * sizeof(std::int32_t));

// Values of all ranks of a group, exchanged in a range of the arena.
class Exchange {
 public:
  Exchange(mlxcomm_group& group, std::uint64_t timeout_ns)
      : group_(group),
        deadline_ns_(timeout_ns == 0 ? 0 : NowNs() + std::min(timeout_ns, std::uint64_t{1} << 62)) {
  }
  ~Exchange() {
    if (values_ != nullptr) session().calls().Free(session().OffsetOf(values_));
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Failure Reserve() {
    const std::uint64_t bytes = (group_.size() + std::uint64_t{1}) * sizeof(ColorAndKey);
    if (const auto offset = session().calls().Allocate(bytes); offset.has_value()) {
      values_ = session().arena_data() + *offset;
      return {};
    }
    return {FailureCode::kResourceExhausted, kNoRank,
            "the arena of " + std::to_string(session().arena().total_bytes()) + " bytes has no " +
                std::to_string(bytes) + " free for splitting a group. " + kArenaRemedy};
  }
  // The time left for the whole split; at least 1, because 0 means no deadline.
  std::uint64_t LeftNs() const {
    if (deadline_ns_ == 0) return 0;
    return std::max<std::uint64_t>(deadline_ns_ - std::min(deadline_ns_, NowNs()), 1);
  }
  // The deadline of a call that the daemon answers at once.
  std::uint64_t CallNs() const { return deadline_ns_ == 0 ? 10'000'000'000 : LeftNs(); }
  Failure Begin(std::span<const std::int32_t> own, std::uint64_t& ticket) {
    std::memcpy(values_, own.data(), own.size_bytes());
    return client::Begin(
        group_,
        mlxcomm_request_of(MLXCOMM_ALL_GATHER, values_, values_ + sizeof(ColorAndKey), own.size(),
                           MLXCOMM_INT32, LeftNs()),
        ticket);
  }
  // `values`: as many for each rank as it passed to Begin.
  Failure Finish(std::uint64_t ticket, std::span<std::int32_t> values) {
    Failure failure = client::Finish(group_, ticket);
    if (!failure.ok()) return failure;
    std::memcpy(values.data(), values_ + sizeof(ColorAndKey), values.size_bytes());
    return {};
  }

 private:
  Connection& session() { return *group_.connection->session; }

  mlxcomm_group& group_;
  std::uint64_t deadline_ns_;    // 0: none.
  std::byte* values_ = nullptr;  // This rank's, then all ranks'.
};

std::vector<std::uint32_t> RanksOf(std::int32_t color, const std::vector<ColorAndKey>& places) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].color == color) ranks.push_back(rank);
  }
  std::ranges::stable_sort(ranks, {}, [&](std::uint32_t rank) { return places[rank].key; });
  return ranks;
}

Failure ReportPlaces(mlxcomm_group& group, Exchange& exchange, ColorAndKey own,
                     std::vector<ColorAndKey>& places, std::uint64_t& number) {
  const std::int32_t values[] = {own.color, own.key};
  std::uint64_t ticket = 0;
  {
    // The n-th split of all ranks uses the n-th exchange.
    const std::lock_guard order(group.split_mutex);
    if (Failure failure = exchange.Begin(values, ticket); !failure.ok()) return failure;
    number = group.splits++;
  }
  std::vector<std::int32_t> reported(std::size_t{2} * group.size());
  if (Failure failure = exchange.Finish(ticket, reported); !failure.ok()) return failure;
  places.resize(group.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    places[rank] = {reported[2 * rank], reported[2 * rank + 1]};
  }
  return {};
}

// Exchanges the outcome with the ranks of this one's part.
Failure ReportOutcomes(mlxcomm_group& group, Exchange& exchange, const Failure& own,
                       const std::vector<std::uint32_t>& ranks) {
  const std::int32_t code = static_cast<std::int32_t>(own.code);
  std::vector<std::int32_t> codes(group.size());
  std::uint64_t ticket = 0;
  Failure failure = exchange.Begin({&code, 1}, ticket);
  if (failure.ok()) failure = exchange.Finish(ticket, codes);
  if (!own.ok()) return own;
  if (!failure.ok()) return failure;
  for (const std::uint32_t rank : ranks) {
    const auto theirs = static_cast<FailureCode>(codes[rank]);
    if (codes[rank] == 0) continue;
    return {
        codes[rank] < 0 || codes[rank] > 255 || !IsValid(theirs) ? FailureCode::kInternal : theirs,
        static_cast<std::int32_t>(rank),
        "rank " + std::to_string(rank) + " of group " + group.facts.name +
            " could not make its part of it: " + FailureCodeName(theirs) +
            ". Its own error has the reason; this part was given up"};
  }
  return {};
}

GroupFacts AloneIn(const mlxcomm_group& group, const std::string& name) {
  return {.timeout_default_ns = group.facts.timeout_default_ns,
          .name = group.facts.name + "/" + name,
          .members = {group.facts.members[group.rank()]}};
}

}  // namespace

std::unique_ptr<mlxcomm_group> MakeGroup(const mlxcomm_group& parent, GroupFacts facts,
                                         bool with_daemon) {
  auto made = std::make_unique<mlxcomm_group>();
  made->connection = parent.connection;
  made->facts = std::move(facts);
  made->facts.timeout_default_ns = parent.facts.timeout_default_ns;
  made->with_daemon = with_daemon;
  made->timeout_ns = parent.timeout_ns.load();
  made->plan = parent.plan.load();
  return made;
}

// `name` is the part's, without the parent's.
Failure SplitGroup(mlxcomm_group& group, ColorAndKey place, const std::string& name,
                   std::uint64_t timeout_ns, std::unique_ptr<mlxcomm_group>& part) {
  if (Failure failure = Latched(group); !failure.ok()) return failure;
  if (group.alone()) {
    if (place.color != MLXCOMM_NO_GROUP) {
      part = MakeGroup(group, AloneIn(group, name), /*with_daemon=*/false);
    }
    return {};
  }
  if (timeout_ns == 0) timeout_ns = group.timeout_ns.load();
  if (timeout_ns == 0) timeout_ns = group.facts.timeout_default_ns;
  Exchange exchange(group, timeout_ns);
  if (Failure failure = exchange.Reserve(); !failure.ok()) return failure;
  std::vector<ColorAndKey> places;
  std::uint64_t number = 0;
  Failure failure = ReportPlaces(group, exchange, place, places, number);
  if (!failure.ok()) return failure;

  std::vector<std::uint32_t> ranks;
  if (place.color != MLXCOMM_NO_GROUP) ranks = RanksOf(place.color, places);
  GroupFacts facts = AloneIn(group, name);
  const bool with_daemon = ranks.size() > 1;
  Connection& session = *group.connection->session;
  if (with_daemon) {
    const auto own = std::ranges::find(ranks, group.rank());
    if (own == ranks.end()) {
      failure = {FailureCode::kInternal, kNoRank, "the exchange of colors lost this rank's own"};
    } else {
      facts = {};
      failure =
          session.Split({group.facts.id, number, ranks,
                         static_cast<std::uint32_t>(own - ranks.begin()), name, exchange.CallNs()},
                        facts);
    }
  }
  const std::uint64_t id = facts.id;
  const bool made = failure.ok();
  std::unique_ptr<mlxcomm_group> own_part;
  if (made && !ranks.empty()) {
    try {
      own_part = MakeGroup(group, std::move(facts), with_daemon);
    } catch (const std::bad_alloc&) {  // The others wait for this rank, so they need its outcome.
      failure = {FailureCode::kResourceExhausted, kNoRank, "no memory"};
    }
  }
  failure = ReportOutcomes(group, exchange, failure, ranks);
  if (failure.ok()) {
    part = std::move(own_part);
  } else if (made && with_daemon) {
    session.Release(id);
  }
  return failure;
}

namespace {

constexpr std::size_t kJobBytesMax = 200;
constexpr std::size_t kPartNameBytesMax = 100;
// If they all end, the caller has to see the reason.
constexpr int kPrivateDaemonsMost = 4;

// Undoes a step unless the whole call succeeds: it may run out of memory anywhere. If the undoing
// throws, for the same reason, that is ignored.
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

// A job of one rank, which needs no daemon.
GroupFacts AloneHere(const char* job) {
  utsname system{};
  const char* const node = ::uname(&system) == 0 ? system.nodename : "localhost";
  return {.name = job, .members = {{node, static_cast<std::uint64_t>(::getpid())}}};
}

Failure CheckJoin(const char* job, std::uint32_t rank, std::uint32_t size, mlxcomm_group** world) {
  if (job == nullptr || world == nullptr) {
    return Invalid("job and world: expected a pointer, got NULL");
  }
  if (size == 0 || rank >= size) {
    return Invalid(WhyWrong("rank",
                            "one below the size " + std::to_string(size) + ", which is at least 1",
                            std::to_string(rank)));
  }
  return CheckName("job", job, kJobBytesMax);
}

// The variables that the job's name is derived from, if it is. If they differ between ranks, each
// rank is in a job of its own.
Place OriginOf(const char* job) {
  Place place;
  return FindPlace(ProcessEnvironment, {}, place).ok() && place.job == job ? place : Place();
}

Failure WithOrigin(Failure failure, const std::string& job_from) {
  // A failure that names a rank comes from a job that all ranks have joined.
  const bool some_missed = failure.code == FailureCode::kDeadlineExceeded && failure.rank < 0;
  if (!some_missed || job_from.empty()) return failure;
  const std::string origin = " The job's name is derived from " + job_from +
                             ", which must be the same on all ranks, or set MLXCOMM_JOB=NAME.";
  failure.message = Shortened(failure.message, kFailureMessageBytesMax - origin.size()) + origin;
  return failure;
}

bool HasLeft(mlxcomm_group& group) {
  const std::lock_guard lock(group.connection->mutex);
  return group.left;
}

enum class Leaving { kNothing, kRelease, kJob };

// `how` makes the text; without memory for it, the failure has no text.
template <typename How>
void LatchLeft(mlxcomm_group& group, How how) {
  try {
    Latch(group, {FailureCode::kCancelled, kNoRank, "this process has left the job" + how()});
  } catch (const std::bad_alloc&) {
    Latch(group, {FailureCode::kCancelled, kNoRank, {}});
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
    if (Refusal refusal = CheckUsable(connection)) return Report(*refusal, error);
    if (Failure failure = CheckJoin(job, rank, size, world); !failure.ok()) {
      return Report(failure, error);
    }
    if (connection->joined.exchange(true)) {
      return Report(Invalid("this connection has joined a job already: use another one"), error);
    }
    UnlessKept may_try_again([&] { connection->joined = false; });
    auto group = std::make_unique<mlxcomm_group>();
    group->connection = connection;
    group->with_daemon = size > 1;
    group->is_world = true;
    if (size == 1) {
      group->facts = AloneHere(job);
    } else {
      const Place place = OriginOf(job);
      const Failure failure = connection->session->Join(
          {job, rank, size, timeout_ns, place.named_by, {}}, group->facts);
      if (!failure.ok()) return Report(WithOrigin(failure, place.job_from), error);
    }
    UnlessKept leaves([&] {
      if (size > 1) connection->session->Leave(nullptr);
    });
    *world = Open(std::move(group));
    leaves.Keep();
    may_try_again.Keep();
    return ReportSuccess(error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_connect_and_join(const mlxcomm_connect_options* options,
                                                  const char* job, uint32_t rank, uint32_t size,
                                                  uint64_t timeout_ns,
                                                  mlxcomm_connection** connection,
                                                  mlxcomm_group** world, mlxcomm_error* error) {
  std::uint64_t deadline_ns = 0;
  for (int daemon = 1;; ++daemon) {
    mlxcomm_code code = mlxcomm_connect(options, connection, error);
    if (code != MLXCOMM_OK) return code;
    const std::uint64_t now = NowNs();
    if (daemon == 1) deadline_ns = now + std::min(timeout_ns, std::uint64_t{1} << 62);
    const std::uint64_t left_ns =
        std::max<std::uint64_t>(deadline_ns - std::min(deadline_ns, now), 1);
    code = mlxcomm_join(*connection, job, rank, size, timeout_ns == 0 ? 0 : left_ns, world, error);
    if (code == MLXCOMM_OK) return code;
    const bool has_ended = code == MLXCOMM_DAEMON_LOST || code == MLXCOMM_DAEMON_STOPPING;
    const bool again =
        has_ended && (*connection)->session->is_private() && daemon < kPrivateDaemonsMost;
    mlxcomm_disconnect(std::exchange(*connection, nullptr));
    if (!again) return code;
  }
}

MLXCOMM_API mlxcomm_code mlxcomm_split(mlxcomm_group* group, int32_t color, int32_t key,
                                       const char* name, uint64_t timeout_ns, mlxcomm_group** part,
                                       mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    if (part == nullptr) return Report(Invalid("part: expected a pointer, got NULL"), error);
    if (color < MLXCOMM_NO_GROUP) {
      return Report(
          Invalid(WhyWrong("color", "0 or more, or MLXCOMM_NO_GROUP", std::to_string(color))),
          error);
    }
    const std::string shown = name != nullptr ? name : std::to_string(color);
    if (Failure failure = CheckName("name", shown, kPartNameBytesMax); !failure.ok()) {
      return Report(failure, error);
    }
    *part = nullptr;
    std::unique_ptr<mlxcomm_group> made;
    const Failure failure = SplitGroup(*group, {color, key}, shown, timeout_ns, made);
    if (made != nullptr) {
      UnlessKept released([&, id = made->facts.id, with_daemon = made->with_daemon] {
        if (with_daemon) group->connection->session->Release(id);
      });
      *part = Open(std::move(made));
      released.Keep();
    }
    return Report(failure, error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_shrink(mlxcomm_group* group, uint64_t timeout_ns,
                                        mlxcomm_group** rest, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    if (rest == nullptr) return Report(Invalid("rest: expected a pointer, got NULL"), error);
    *rest = nullptr;
    if (group->alone()) {
      return Report(Invalid("group " + group->facts.name +
                            ": has not failed, and has one rank; expected a group that has failed"),
                    error);
    }
    const Failure latched = Latched(*group);
    if (latched.code == FailureCode::kDaemonLost || HasLeft(*group)) return Report(latched, error);
    if (timeout_ns == 0) timeout_ns = group->timeout_ns.load();
    GroupFacts facts;
    const Failure failure = group->connection->session->Shrink(group->facts.id, timeout_ns, facts);
    if (!failure.ok()) return Report(failure, error);
    UnlessKept released([&, id = facts.id] { group->connection->session->Release(id); });
    auto made = MakeGroup(*group, std::move(facts), /*with_daemon=*/true);
    // The new group takes the world's place: closing the old one does not leave the job.
    *rest = Open(std::move(made));
    released.Keep();
    const std::lock_guard lock(group->connection->mutex);
    (*rest)->is_world = std::exchange(group->is_world, false);
    return ReportSuccess(error);
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
  // In a forked child, locks may be held forever.
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
}  // namespace mlxcomm::client
