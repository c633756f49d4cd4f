// How a Connection carries out operations on pages that its groups' ranks share (meeting.h): what it
// calls there, how it waits, and how it goes back to the daemon.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "client/lib/connection.h"
#include "proto/queue/doorbell.h"

namespace mlxcomm::client {
namespace {

constexpr std::uint64_t kHearDoorbellNs = 10'000'000;
// How long a thread sleeps for which another one, or the daemon, does something.
constexpr std::uint64_t kLookAgainNs = 50'000'000;
constexpr std::size_t kPagesMax = 1024;

}  // namespace

Connection::GroupCalls& Connection::CallsOf(std::uint64_t group) {
  if (recent_calls_ == nullptr || recent_calls_->first != group) {
    recent_calls_ = &*calls_.try_emplace(group).first;
  }
  return recent_calls_->second;
}

// Numbers a collective, and calls it on its group's page if there is one. Any other operation goes
// to the daemon as it is.
meeting::Way Connection::NumberCollective(queue::SubmissionEntry& entry, Caller caller,
                                          Extent extent, std::uint64_t now, Pending& pending) {
  if (IsPointToPoint(entry.kind)) return meeting::Way::kDaemon;
  GroupCalls& calls = CallsOf(entry.group);
  if (calls.meeting == nullptr && calls.pages_seen != pages_taken_) {
    calls.pages_seen = pages_taken_;
    const auto page = pages_.find(entry.group);
    if (page != pages_.end() && page->second->ranks() == caller.size) {
      calls.meeting = page->second.get();
      calls.meeting->Begin(caller.rank, calls.called);
    }
  }
  pending.is_collective = true;
  if (calls.meeting == nullptr) {
    pending.number = calls.called++;
    entry.tag = static_cast<std::uint32_t>(pending.number);
    return meeting::Way::kDaemon;
  }
  if (!calls.meeting->HasRoom()) SweepPages();
  const meeting::Way way = calls.meeting->Call(arena_, extent.input_bytes, now, entry, pending.met);
  pending.number = pending.met.number;
  // Called again, it may be taken back again.
  std::erase_if(calls.refused, [&](std::uint64_t number) { return number >= pending.number; });
  if (way == meeting::Way::kPage) pending.meeting = calls.meeting;
  if (way == meeting::Way::kDaemonCloses) {
    entry.purpose = queue::SubmissionPurpose::kOperateAndClose;
  }
  return way;
}

// Pages work without the daemon, and one may submit again and again without waiting: whether it lives
// is looked at now and then.
void Connection::HearDoorbellNowAndThen(std::uint64_t now) {
  if (now - doorbell_heard_ns_ < kHearDoorbellNs || reader_present_) return;
  doorbell_heard_ns_ = now;
  if (!HearDoorbell()) pages_untaken_ = false;
}

// Ends what has been met and that no thread waits for just now.
void Connection::SweepPages() {
  pending_.EraseWhere([&](Pending& pending) {
    if (pending.meeting != nullptr && !pending.waits) {
      EndOnPage(pending, pending.meeting->Look(pending.met), NowNs());
    }
    return pending.abandoned && pending.outcome.has_value();
  });
  DropLeftPages();
}

void Connection::TakePage(int descriptor) {
  std::unique_ptr<Meeting> page = meets_ ? Meeting::Map(descriptor) : nullptr;
  if (!meets_) ::close(descriptor);
  DropLeftPages();
  if (page == nullptr || pages_.size() + left_pages_.size() >= kPagesMax) return;
  const std::uint64_t group = page->group();
  if (pages_.emplace(group, std::move(page)).second) ++pages_taken_;
}

// The daemon has sent a group's page before it answered the call that made the group.
void Connection::TakePages() {
  const std::lock_guard lock(mutex_);
  for (std::size_t page = 0; page < kPagesMax && !reader_present_; ++page) {
    if (!HearDoorbell()) return;
  }
  // The reader takes them only when it sleeps.
  pages_untaken_ = true;
}

// True: it rang. Requires that no thread reads it.
bool Connection::HearDoorbell() {
  int page = -1;
  const queue::DoorbellState state = queue::DrainDoorbell(doorbell_, page);
  if (page >= 0) TakePage(page);
  if (state == queue::DoorbellState::kOtherSideGone) {
    TakeCompletions();  // Its last ones.
    LoseDaemon("it has ended");
  }
  return state == queue::DoorbellState::kRung;
}

// Its page stays as long as operations on it have not ended, or a thread looks at it.
void Connection::ForgetGroup(std::uint64_t group) {
  SweepPages();
  recent_calls_ = nullptr;
  calls_.erase(group);
  const auto page = pages_.find(group);
  if (page == pages_.end()) return;
  left_pages_.push_back(std::move(page->second));
  pages_.erase(page);
  DropLeftPages();
}

void Connection::DropLeftPages() {
  std::erase_if(left_pages_, [&](const std::unique_ptr<Meeting>& page) {
    bool is_used = page->waiting > 0;
    pending_.ForEach(
        [&](const Pending& pending) { is_used = is_used || pending.meeting == page.get(); });
    return !is_used;
  });
}

// The daemon has refused to begin it, so it does not count as called. Of several that were refused
// the last one is taken back first, whichever was refused first.
void Connection::TakeBack(const Pending& refused) {
  const auto found = calls_.find(refused.group);
  if (found == calls_.end()) return;
  GroupCalls& calls = found->second;
  if (calls.meeting == nullptr) {
    --calls.called;
    return;
  }
  if (calls.refused.size() >= kInFlightMax) calls.refused.erase(calls.refused.begin());
  calls.refused.push_back(refused.number);
  std::ranges::sort(calls.refused);
  while (!calls.refused.empty() && calls.meeting->TakeBack(calls.refused.back())) {
    calls.refused.pop_back();
  }
}

// kMet: the operation has ended; kAdopted: it goes on as one of the daemon's, or has ended there.
void Connection::EndOnPage(Pending& pending, meeting::Progress progress, std::uint64_t now) {
  if (pending.meeting == nullptr) return;
  if (progress == meeting::Progress::kMet && !pending.outcome.has_value()) {
    pending.meeting->Combine(pending.met, arena_);
    pending.meeting->End(pending.met, now);
    allocator_->Unpin(pending.pins);
    pending.outcome = Outcome{};
  } else if (progress == meeting::Progress::kMet || progress == meeting::Progress::kAdopted) {
    pending.meeting->End(pending.met, 0);
  } else {
    return;
  }
  pending.meeting = nullptr;
}

// True: all ranks came within that many looks, so the operation has ended.
bool Connection::MeetsAtOnce(Pending& pending) {
  const int looks_most = page_looks_.UnderLocks();
  const int looks = pending.meeting->LookAtOnce(pending.met, looks_most);
  if (looks == looks_most) return false;
  page_looks_.Learn(looks, true);
  if (pending.meeting->Look(pending.met) != meeting::Progress::kMet) return false;
  EndOnPage(pending, meeting::Progress::kMet, NowNs());
  return true;
}

// The daemon has closed the page, so all is decided there, unless somebody scribbles over it.
void Connection::DecideOnPage(Pending& pending) {
  const bool met = pending.meeting->Look(pending.met) == meeting::Progress::kMet;
  EndOnPage(pending, met ? meeting::Progress::kMet : meeting::Progress::kAdopted, NowNs());
}

// Returns when the operation has ended or been taken over, or after a while, to be called again.
void Connection::WaitOnPage(std::unique_lock<std::mutex>& lock, std::uint64_t group,
                            std::uint64_t ticket, std::uint64_t began, std::uint64_t until_ns) {
  Pending* pending = Find(group, ticket);
  if (std::exchange(pending->waits, true)) {  // Another thread does.
    const std::uint64_t left_ns = until_ns - std::min(until_ns, began);
    settled_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, kLookAgainNs)));
    return;
  }
  const queue::AdaptiveSpin spin = page_spin_;
  const int looks_most = page_looks_.Next();
  Meeting& page = *pending->meeting;
  const Meeting::Operation operation = pending->met;
  until_ns = std::min({until_ns, began + Meeting::kPatienceNs, pending->due_ns});
  ++page.waiting;  // So the page stays, though the operation may end meanwhile, and its group be left.
  lock.unlock();
  const int looks = page.LookAtOnce(operation, looks_most);
  if (looks == looks_most) page.Wait(operation, spin, until_ns);
  lock.lock();
  --page.waiting;
  page_looks_.Learn(looks, looks < looks_most);
  const std::uint64_t now = NowNs();
  const meeting::Progress progress = page.Look(operation);
  page_spin_.Learn(progress == meeting::Progress::kMet ? now - began : UINT64_MAX);
  pending = pending_.Find(ticket);
  if (pending == nullptr) return page.End(operation, 0);  // Another thread took its outcome.
  pending->waits = false;
  EndOnPage(*pending, pending->outcome.has_value() ? meeting::Progress::kAdopted : progress, now);
  if (pending->meeting == nullptr) return settled_.notify_all();
  AskToClose(lock, group);
  ReadOrSleep(lock, now + kLookAgainNs);
}

// The daemon's answer, a completion, wakes the thread that reads these. Where too much is in its
// queue already, the next attempt asks.
void Connection::AskToClose(std::unique_lock<std::mutex>& lock, std::uint64_t group) {
  if (close_asked_) return;
  queue::SubmissionEntry entry{};
  entry.group = group;
  entry.purpose = queue::SubmissionPurpose::kClose;
  const queue::RingResult pushed = submissions_->Push(entry);
  if (pushed == queue::RingResult::kCorrupt) return LoseDaemon("its queue is corrupt");
  close_asked_ = pushed == queue::RingResult::kDone;
  if (!close_asked_ || !submissions_->ConsumerSleeps()) return;
  lock.unlock();
  queue::RingDoorbell(doorbell_);
  lock.lock();
}

}  // namespace mlxcomm::client
