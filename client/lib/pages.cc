#include "client/lib/pages.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "client/lib/clock.h"

namespace mlxcomm::client {

namespace {

using meeting::Progress;
using meeting::Way;

// No more operations of a session are in flight, so no more can be refused out of order.
constexpr std::size_t kRefusedMax = queue::kCompletionSlots - 1;

bool RanksMeet() {
  const char* const word = std::getenv("MLXCOMM_RANKS_MEET");
  return word == nullptr || std::string_view(word) != "0";
}

}  // namespace

Pages::Pages(std::byte* arena, const queue::SchedulingPolicy& scheduling)
    : arena_(arena),
      is_used_(RanksMeet()),
      cores_(scheduling.cores),
      spin_(scheduling.waiting),
      kept_(queue::SpinLimits{0, scheduling.keep_core_ns, false}) {}

void Pages::Take(int descriptor) {
  std::unique_ptr<Meeting> page = is_used_ ? Meeting::Map(descriptor) : nullptr;
  if (!is_used_) ::close(descriptor);
  DropUnused();
  const auto has_page = [](const Groups::value_type& group) {
    return group.second.page != nullptr;
  };
  const auto pages = static_cast<std::size_t>(std::ranges::count_if(groups_, has_page));
  if (page == nullptr || pages + left_.size() >= kPagesMax) return;
  ranks_ = std::max(ranks_, page->ranks());
  Group& group = groups_[page->group()];
  if (group.page == nullptr) group.page = std::move(page);
}

Pages::Group& Pages::Of(std::uint64_t group) {
  if (recent_ == nullptr || recent_->first != group) recent_ = &*groups_.try_emplace(group).first;
  return recent_->second;
}

Meeting* Pages::Find(std::uint64_t group) {
  Meeting* const page = Of(group).page.get();
  return page != nullptr && page->began() ? page : nullptr;
}

Way Pages::Call(std::uint32_t rank, std::uint32_t size, std::uint64_t input_bytes,
                std::uint64_t now_ns, Meeting::Operation& operation) {
  queue::SubmissionEntry& entry = operation.entry;
  Group& group = Of(entry.group);
  Meeting* const page = group.page.get();
  if (page == nullptr || page->ranks() != size) {
    operation.number = group.called++;
    entry.tag = static_cast<std::uint32_t>(operation.number);
    return Way::kDaemon;
  }
  if (!page->began()) page->Begin(rank, group.called);
  const Way way = page->Call(arena_, input_bytes, now_ns, operation);
  // A number that is called again may be taken back again.
  std::erase_if(group.refused, [&](std::uint64_t number) { return number >= operation.number; });
  if (way == Way::kDaemonCloses) entry.purpose = queue::SubmissionPurpose::kOperateAndClose;
  if (way != Way::kPage) return way;
  operation.page = page;
  ++page->users;
  return way;
}

void Pages::TakeBack(std::uint64_t group, std::uint64_t number) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  auto& [called, page, refused] = found->second;
  if (page == nullptr || !page->began()) {
    --called;
    return;
  }
  if (refused.size() >= kRefusedMax) refused.erase(refused.begin());
  refused.push_back(number);
  std::ranges::sort(refused);
  while (!refused.empty() && page->TakeBack(refused.back())) refused.pop_back();
}

void Pages::Forget(std::uint64_t group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  Leave(found->second);
  recent_ = nullptr;
  groups_.erase(found);
}

void Pages::ForgetAll() {
  for (auto& [id, group] : groups_) Leave(group);
  recent_ = nullptr;
  groups_.clear();
}

void Pages::Leave(Group& group) {
  DropUnused();
  if (group.page != nullptr && group.page->users > 0) left_.push_back(std::move(group.page));
}

void Pages::DropUnused() {
  std::erase_if(left_, [](const std::unique_ptr<Meeting>& page) { return page->users == 0; });
}

bool Pages::End(Meeting::Operation& operation, Progress progress, std::uint64_t now_ns) {
  const bool met = progress == Progress::kMet;
  if (!met && progress != Progress::kAdopted) return false;
  Meeting& page = *std::exchange(operation.page, nullptr);
  if (met) page.Combine(operation, arena_);
  page.End(operation, met ? now_ns : 0);
  --page.users;
  return met;
}

bool Pages::MeetsAtOnce(Meeting::Operation& operation) {
  const int looks_most = looks_.UnderLocks();
  const int looks = operation.page->LookAtOnce(operation, looks_most);
  if (looks == looks_most) return false;
  looks_.Learn(looks, true);
  return End(operation, operation.Look(), NowNs());
}

Progress Pages::Wait(std::unique_lock<std::mutex>& lock, const Meeting::Operation& called,
                     std::uint64_t began_ns, std::uint64_t until_ns) {
  Meeting& page = *called.page;
  const Meeting::Operation operation = called;
  const queue::AdaptiveSpin spin = spin_;
  const int looks_most = looks_.Next();
  const std::uint64_t keep_most_ns = ranks_ <= cores_ ? kept_.budget_ns() : 0;
  const bool keeps = keep_most_ns > 0 && keeps_.Next();
  ++page.users;
  lock.unlock();
  const int looks = page.LookAtOnce(operation, looks_most);
  const bool is_longer = looks == looks_most;
  bool is_wanted = false;  // Another thread wants the core.
  std::uint64_t longest_gap_ns = 0;
  if (is_longer && keeps) {
    const std::uint64_t keep_until_ns = std::min(until_ns, began_ns + keep_most_ns);
    is_wanted = !page.WaitAwake(operation, keep_until_ns, longest_gap_ns);
  }
  if (is_longer) page.Wait(operation, is_wanted ? queue::AdaptiveSpin() : spin, until_ns);
  lock.lock();
  looks_.Learn(looks, !is_longer);
  if (is_longer && keeps) keeps_.Learn(longest_gap_ns);
  const Progress progress = page.Look(operation);
  const std::uint64_t waited_ns = progress == Progress::kMet ? NowNs() - began_ns : UINT64_MAX;
  spin_.Learn(waited_ns);
  kept_.Learn(waited_ns);
  --page.users;
  DropUnused();
  return progress;
}

}  // namespace mlxcomm::client
