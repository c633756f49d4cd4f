#include "daemon/jobs/direct_groups.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace mlxcomm::jobs {
namespace {

using record::OperationCounts;

// Opening a page costs more than it gains if it closes after fewer than this many operations for
// each submission that it waited for.
constexpr std::uint64_t kWorthwhile = 16;
constexpr std::uint64_t kQuietSubmissionsMax = 1024;
// The shortest time between two harvests of a page, and between its closing and opening.
constexpr std::uint64_t kHarvestLeastNs = 100'000'000;
constexpr std::uint64_t kClosedLeastNs = 10'000'000;
// Bounds of what ranks report.
constexpr std::uint64_t kOperationLeastNs = 20;
constexpr std::uint64_t kOperationMostNs = 10'000'000'000;
constexpr std::size_t kReportsMax = 2 * meeting::kRecords;
// A process that does not take its pages holds a descriptor for each.
constexpr std::size_t kUnreadyPagesMax = 256;

static_assert(meeting::kTallyBuckets == OperationCounts::kBuckets &&
              meeting::kTalliesASide == OperationCounts::kKinds &&
              meeting::kTalliesASide == OperationCounts::kTypes);
static_assert(kOperations.number_end() <= OperationCounts::kKinds &&
                  kDataTypes.number_end() <= OperationCounts::kTypes,
              "a kind or type without a place is not counted");
static_assert([] {
  for (std::size_t bucket = 0; bucket < OperationCounts::kBuckets; ++bucket) {
    if (meeting::TallyBoundNs(bucket) != OperationCounts::BoundNs(bucket)) return false;
  }
  return true;
}());
static_assert(meeting::kRanksMax >= collective::kLocalRanksMax);

}  // namespace

DirectGroups::DirectGroups(collective::Collectives& collectives, Membership& membership,
                           OperationRecorder& recorder, intake::Processes& processes,
                           const std::uint64_t& now_ns, Submit submit)
    : collectives_(collectives),
      membership_(membership),
      recorder_(recorder),
      processes_(processes),
      now_ns_(now_ns),
      submit_(std::move(submit)) {}

DirectGroups::~DirectGroups() = default;

void DirectGroups::OnGroupMade(std::uint64_t group) {
  const collective::Group* const made = collectives_.Find(group);
  if (made == nullptr || pages_.contains(group) || pages_.size() >= kPagesMax) return;
  const collective::GroupLayout& layout = made->layout();
  const std::uint32_t ranks = layout.rank_count();
  if (layout.node_count() != 1 || ranks < 2 || ranks > meeting::kRanksMax) return;
  std::vector<SessionId> sessions;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    sessions.push_back(membership_.HolderOf(group, rank));
    if (sessions.back() == 0) return;  // The rank has left.
  }
  const GroupOrigin* const origin = membership_.OriginOf(group);
  if (origin == nullptr || !HasRoomFor(origin->job.user, sessions)) return;
  std::byte* const memory = processes_.MakePage(group, meeting::PageBytes(ranks), sessions);
  if (memory == nullptr) return;
  auto page = std::make_unique<Page>(group, meeting::PageView(memory, ranks));
  page->user = origin->job.user;
  page->sessions = std::move(sessions);
  processes_.GivePage(group, page->sessions);
  pages_.emplace(group, std::move(page));
}

bool DirectGroups::HasRoomFor(const std::string& user,
                              const std::vector<SessionId>& sessions) const {
  std::size_t of_user = 0;
  absl::flat_hash_map<SessionId, std::size_t> unready;
  for (const SessionId session : sessions) unready[session] = 0;
  for (const auto& [group, page] : pages_) {
    if (page->user != user) continue;
    ++of_user;
    for (std::uint32_t rank = 0; rank < page->view.ranks(); ++rank) {
      const auto found = unready.find(page->sessions[rank]);
      if (found == unready.end() || page->side.IsReady(rank)) continue;
      if (++found->second >= kUnreadyPagesMax) return false;
    }
  }
  return of_user < kPagesPerUserMax;
}

void DirectGroups::OnGroupRemoved(std::uint64_t group) {
  const auto found = pages_.find(group);
  if (found == pages_.end()) return;
  HarvestNow(*found->second);
  for (Page::Partly& partly : found->second->partly) Report(*found->second, partly);
  pages_.erase(found);
  processes_.DropPage(group);
}

std::optional<std::uint64_t> DirectGroups::NumberOf(const collective::Call& call) {
  const auto found = pages_.find(call.group);
  if (found == pages_.end()) return std::nullopt;
  Page& page = *found->second;
  if (call.closes_page) Close(page);
  if (!page.side.IsReady(call.rank)) return std::nullopt;
  // The tag is the lower half of the number; few calls have followed it.
  const std::uint64_t called = page.side.CalledBy(call.rank);
  if (called == 0) return std::nullopt;
  const std::uint64_t last = called - 1;
  const std::uint32_t behind = static_cast<std::uint32_t>(last) - call.tag;
  if (behind > last) return std::nullopt;
  return last - behind;
}

void DirectGroups::AfterSubmission(std::uint64_t group) {
  const auto found = pages_.find(group);
  if (found == pages_.end()) return;
  Page& page = *found->second;
  if (page.side.open() || page.for_good) return;
  if (++page.submissions < page.quiet_submissions * page.view.ranks()) return;
  if (page.closed_ns != 0 && now_ns_ - page.closed_ns < kClosedLeastNs) return;
  if (!page.side.Reopen()) return;
  MakeRoom(page);
  harvest_ns_ = all_harvested_ ? now_ns_ + kHarvestNs : std::min(harvest_ns_, now_ns_ + kHarvestNs);
  all_harvested_ = false;
  page.is_harvested = false;
  page.met_at_opening = MetOn(page);
}

std::uint64_t DirectGroups::MetOn(const Page& page) const {
  std::uint64_t most = 0;
  for (std::uint32_t rank = 0; rank < page.view.ranks(); ++rank) {
    most = std::max(most, page.side.MetBy(rank));
  }
  return most;
}

void DirectGroups::Close(std::uint64_t group) {
  const auto found = pages_.find(group);
  if (found != pages_.end()) Close(*found->second);
}

void DirectGroups::CloseForGood(std::uint64_t group) {
  const auto found = pages_.find(group);
  if (found != pages_.end()) CloseForGood(*found->second);
}

void DirectGroups::CloseForGood(Page& page) {
  page.for_good = true;
  Close(page);
  // The failure that is reported next says how many operations the rank had finished.
  if (!page.is_harvested) HarvestNow(page);
}

void DirectGroups::CloseAllOf(SessionId session) {
  for (const auto& [group, page] : pages_) {
    if (std::ranges::find(page->sessions, session) != page->sessions.end()) CloseForGood(*page);
  }
}

void DirectGroups::Close(Page& page) {
  if (!page.side.open()) return;
  std::vector<meeting::Adopted> adopted = std::exchange(adopted_, {});
  page.side.Close(adopted);
  page.closed_ns = now_ns_;
  const std::uint64_t met_in_all = MetOn(page);
  const std::uint64_t met = met_in_all - std::min(met_in_all, page.met_at_opening);
  page.quiet_submissions = met < kWorthwhile * page.quiet_submissions
                               ? std::min(2 * page.quiet_submissions, kQuietSubmissionsMax)
                               : 1;
  page.submissions = 0;
  Harvest(page);
  for (meeting::Adopted& taken : adopted) {
    const SessionId session = page.sessions[taken.rank];
    taken.entry.group = page.group;
    taken.entry.purpose = queue::SubmissionPurpose::kOperate;
    std::optional<collective::Call> call = processes_.TakeOver(session, taken.entry);
    if (!call.has_value()) continue;
    call->number = taken.number;
    submit_(*call, now_ns_ - std::min(now_ns_, taken.called_ns));
  }
  adopted.clear();
  adopted_ = std::move(adopted);
}

void DirectGroups::Harvest() {
  for (const auto& [group, page] : pages_) Harvest(*page);
}

// A rank that waits asks for the page to be closed. A rank that has called and is computing does
// not ask, but its deadline counts, too.
void DirectGroups::OnTime() {
  if (now_ns_ < harvest_ns_) return;
  harvest_ns_ = now_ns_ + kHarvestNs;
  const std::uint64_t before_ns = now_ns_ - std::min(now_ns_, kHarvestNs);
  for (const auto& [group, page] : pages_) {
    if (page->side.open() && page->side.HasWaitedSince(before_ns)) Close(*page);
  }
  Harvest();
  all_harvested_ =
      std::ranges::all_of(pages_, [](const auto& page) { return page.second->is_harvested; });
}

void DirectGroups::Harvest(Page& page) {
  if (page.is_harvested) return;
  if (page.harvested_ns == 0 || now_ns_ - page.harvested_ns >= kHarvestLeastNs) HarvestNow(page);
}

void DirectGroups::HarvestNow(Page& page) {
  const std::uint64_t elapsed_ns = now_ns_ - std::exchange(page.harvested_ns, now_ns_);
  reported_ = 0;
  // After the closing a rank may still finish what it had called, unless it is lost.
  page.is_harvested = !page.side.open() && now_ns_ - page.closed_ns > kHarvestNs &&
                      (page.for_good || page.side.AllHaveEnded());
  collective::Group* const group = collectives_.Find(page.group);
  for (std::uint32_t rank = 0; rank < page.view.ranks() && group != nullptr; ++rank) {
    if (page.side.IsReady(rank)) {
      group->OnMet(rank, page.side.CalledBy(rank), page.side.MetBy(rank));
    }
  }
  page.side.TakeRecords([&](std::uint32_t rank, const meeting::MetRecord& record) {
    TakeRecord(page, rank, record);
  });
  // Any new operation would exceed the bound while no time has passed; the next harvest counts it.
  if (elapsed_ns > 0) CountTallies(page, elapsed_ns);
}

void DirectGroups::MakeRoom(Page& page) {
  const std::size_t ranks = page.view.ranks();
  page.counted.resize(meeting::kTalliesASide * meeting::kTalliesASide);
  page.partly.resize(meeting::kRecords);
  page.partly_calls.resize(meeting::kRecords * ranks);
  adopted_.reserve(meeting::kGenerations * ranks);
}

void DirectGroups::TakeRecord(Page& page, std::uint32_t rank, const meeting::MetRecord& record) {
  if (record.number_plus_one == 0 || page.partly.empty()) return;
  const std::size_t at = (record.number_plus_one - 1) % meeting::kRecords;
  Page::Partly& partly = page.partly[at];
  if (partly.number_plus_one != record.number_plus_one) {
    Report(page, partly);  // Leaves out the ranks that are missing.
    partly.number_plus_one = record.number_plus_one;
  }
  // A hostile rank may repeat a number.
  const std::uint32_t ranks = page.view.ranks();
  if (partly.calls < ranks) {
    page.partly_calls[at * ranks + partly.calls++] = {rank, record.call, record.began_ns,
                                                      record.ended_ns};
  }
  if (partly.calls == ranks) Report(page, partly);
}

void DirectGroups::Report(Page& page, Page::Partly& partly) {
  const Page::Partly reported = std::exchange(partly, {});
  if (reported.calls == 0 || reported_++ >= kReportsMax) return;
  const std::uint64_t number = reported.number_plus_one - 1;
  const MetCall* const first =
      page.partly_calls.data() + number % meeting::kRecords * page.view.ranks();
  recorder_.OnMet({page.group, number}, {first, reported.calls});
}

// Counts what the first rank reports, because an operation counts once.
void DirectGroups::CountTallies(Page& page, std::uint64_t elapsed_ns) {
  const meeting::RankArea& area = page.view.area(0);
  if (page.counted.empty()) return;  // It was never open.
  const auto grown = [](const std::atomic<std::uint64_t>& reported, std::uint64_t& known) {
    const std::uint64_t now = reported.load(std::memory_order_relaxed);
    return std::max(now, known) - std::exchange(known, std::max(now, known));
  };
  for (std::size_t kind = 0; kind < meeting::kTalliesASide; ++kind) {
    for (std::size_t type = 0; type < meeting::kTalliesASide; ++type) {
      const meeting::MetTally& reported = area.tallies[kind][type];
      OperationCounts::Counts& known = page.counted[kind * meeting::kTalliesASide + type];
      OperationCounts::Counts more;
      for (std::size_t bucket = 0; bucket < meeting::kTallyBuckets; ++bucket) {
        more.buckets[bucket] = grown(reported.buckets[bucket], known.buckets[bucket]);
        more.done += more.buckets[bucket];
      }
      if (more.done == 0) continue;
      more.bytes = grown(reported.bytes, known.bytes);
      more.duration_ns = grown(reported.duration_ns, known.duration_ns);
      if (more.done > elapsed_ns / kOperationLeastNs) continue;  // More than a rank can do.
      more.bytes = std::min(more.bytes, more.done * meeting::kCellBytes);
      more.duration_ns = std::min(more.duration_ns, more.done * kOperationMostNs);
      recorder_.CountMet(kind, type, more);
    }
  }
}

}  // namespace mlxcomm::jobs
