#include "client/lib/group_split.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "client/lib/answer.h"

namespace mlxcomm::client {
namespace {

struct ColorAndKey {
  std::int32_t color = 0;
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
    if (values_ != nullptr) {  // Given back at once, or when no operation uses it.
      session().Free(session().OffsetOf(values_));
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Failure Reserve() {
    const std::uint64_t bytes = (group_.size() + std::uint64_t{1}) * sizeof(ColorAndKey);
    if (const auto offset = session().Allocate(bytes); offset.has_value()) {
      values_ = session().arena_data() + *offset;
      return {};
    }
    return {FailureCode::kResourceExhausted, kNoRank,
            "the arena of " + std::to_string(session().arena().total_bytes()) + " bytes has no " +
                std::to_string(bytes) + " free for splitting a group. " + kArenaRemedy};
  }
  // The rest of the time for the whole split; at least something, because 0 means no deadline.
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
  // `values`: the same number for each rank as it gave.
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
  std::byte* values_ = nullptr;  // This rank's, then those of all.
};

std::vector<std::uint32_t> RanksOf(std::int32_t color, const std::vector<ColorAndKey>& places) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return places[a].key < places[b].key; });
  return ranks;
}

Failure TellPlaces(mlxcomm_group& group, Exchange& exchange, ColorAndKey own,
                   std::vector<ColorAndKey>& places, std::uint64_t& number) {
  const std::int32_t values[] = {own.color, own.key};
  std::uint64_t ticket = 0;
  {
    // The n-th split of all ranks uses the n-th exchange.
    const std::lock_guard order(group.split_mutex);
    if (Failure failure = exchange.Begin(values, ticket); !failure.ok()) return failure;
    number = group.splits++;
  }
  std::vector<std::int32_t> told(std::size_t{2} * group.size());
  if (Failure failure = exchange.Finish(ticket, told); !failure.ok()) return failure;
  places.resize(group.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    places[rank] = {told[2 * rank], told[2 * rank + 1]};
  }
  return {};
}

// Among the ranks that share this one's part.
Failure TellHowItWent(mlxcomm_group& group, Exchange& exchange, const Failure& own,
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
            ". Its own error says more; this part was given up"};
  }
  return {};
}

GroupFacts AloneIn(const mlxcomm_group& group, const std::string& name) {
  GroupFacts facts;
  facts.timeout_default_ns = group.facts.timeout_default_ns;
  facts.name = group.facts.name + "/" + name;
  facts.members = {group.facts.members[group.rank()]};
  return facts;
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

Failure SplitGroup(mlxcomm_group& group, const SplitRequest& request,
                   std::unique_ptr<mlxcomm_group>& part) {
  if (Failure failure = Latched(group); !failure.ok()) return failure;
  if (group.alone()) {
    if (request.color != MLXCOMM_NO_GROUP) {
      part = MakeGroup(group, AloneIn(group, request.name), /*with_daemon=*/false);
    }
    return {};
  }
  std::uint64_t timeout_ns = request.timeout_ns;
  if (timeout_ns == 0) timeout_ns = group.timeout_ns.load();
  if (timeout_ns == 0) timeout_ns = group.facts.timeout_default_ns;
  Exchange exchange(group, timeout_ns);
  if (Failure failure = exchange.Reserve(); !failure.ok()) return failure;
  std::vector<ColorAndKey> places;
  std::uint64_t number = 0;
  Failure failure = TellPlaces(group, exchange, {request.color, request.key}, places, number);
  if (!failure.ok()) return failure;

  std::vector<std::uint32_t> ranks;
  if (request.color != MLXCOMM_NO_GROUP) ranks = RanksOf(request.color, places);
  GroupFacts facts = AloneIn(group, request.name);
  const bool with_daemon = ranks.size() > 1;
  Connection& session = *group.connection->session;
  if (with_daemon) {
    const auto own = std::find(ranks.begin(), ranks.end(), group.rank());
    if (own == ranks.end()) {
      failure = {FailureCode::kInternal, kNoRank, "the exchange of colors lost this rank's own"};
    } else {
      facts = {};
      failure = session.Split({group.facts.id, number, ranks, request.name.c_str(),
                               static_cast<std::uint32_t>(own - ranks.begin())},
                              exchange.CallNs(), facts);
    }
  }
  const std::uint64_t id = facts.id;
  const bool made = failure.ok();
  std::unique_ptr<mlxcomm_group> own_part;
  if (made && !ranks.empty()) {
    try {
      own_part = MakeGroup(group, std::move(facts), with_daemon);
    } catch (const std::bad_alloc&) {  // The others must learn of it: they wait for this rank.
      failure = {FailureCode::kResourceExhausted, kNoRank, "no memory"};
    }
  }
  failure = TellHowItWent(group, exchange, failure, ranks);
  if (failure.ok()) {
    part = std::move(own_part);
  } else if (made && with_daemon) {
    session.Release(id);
  }
  return failure;
}

}  // namespace mlxcomm::client
