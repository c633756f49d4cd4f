#include "daemon/work/workers.h"

#include <poll.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/power.h"
#include "daemon/work/work_pieces.h"

namespace mlxcomm {
namespace {

// The loop takes no further piece after this long, because it may have other work.
constexpr std::uint64_t kEnoughNs = 4'000;

std::uint64_t BytesOf(const collective::LocalWork& work, std::uint64_t elements) {
  return elements * DataTypeBytes(work.type);
}

reduce::StoredWork StoredWorkOf(const collective::LocalWork& work) {
  return {work.type, work.input_count, work.step_bytes};
}

}  // namespace

Workers::Workers(const queue::SchedulingPolicy& scheduling, platform::Wakeup& loop_bell,
                 record::FlightRecorder& recorder, std::uint64_t cache_bytes)
    : scheduling_(scheduling),
      loop_bell_(loop_bell),
      recorder_(recorder),
      slots_(std::make_unique<Slot[]>(kWorksMax)),
      store_choice_(cache_bytes != 0 ? cache_bytes : platform::LastLevelCacheBytes(), kPieceBytes) {
  done_here_.reserve(kWorksMax);
  if (scheduling.workers > 0) loop_track_ = recorder.AddTrack(record::TrackKind::kWorker, "engine");
  for (std::uint32_t i = 0; i < scheduling.workers; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_[i]->track = recorder.AddTrack(record::TrackKind::kWorker, absl::StrCat("worker ", i));
  }
  // Started last, because workers access each other.
  for (const auto& worker : workers_) {
    worker->thread = std::thread([this, raw = worker.get()] { Run(*raw); });
  }
}

Workers::~Workers() {
  stop_.store(true, std::memory_order_release);
  for (const auto& worker : workers_) worker->bell.Ring();
  for (const auto& worker : workers_) {
    worker->thread.join();
    recorder_.CloseTrack(worker->track);
  }
  recorder_.CloseTrack(loop_track_);
}

bool Workers::Submit(const collective::LocalWork* work, std::uint64_t cookie,
                     const OperationKey& operation) {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  Slot& slot = slots_[written % kWorksMax];
  if (workers_.empty() || slot.used) return false;
  // The slot's last work item is done, but front_ may not have moved past it yet.
  if (written - front_.load(std::memory_order_acquire) >= kWorksMax) HasPieces();
  slot.used = true;
  loop_core_.store(platform::CurrentCore(), std::memory_order_relaxed);
  slot.work = work;
  slot.cookie = cookie;
  slot.operation = operation;
  slot.stores = store_choice_.Choose(StoredWorkOf(*work));
  slot.work_ns.store(0, std::memory_order_relaxed);
  slot.piece_elements = ElementsOfPiece(*work);
  const std::uint64_t pieces = PiecesOf(*work, slot.piece_elements);
  slot.left.store(static_cast<std::uint32_t>(pieces), std::memory_order_relaxed);
  slot.cursor.store(PieceCursor::Of(pieces), std::memory_order_release);
  written_.store(written + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // A worker that is awake checks for more before it sleeps, and wakes the next.
  for (const auto& worker : workers_) {
    if (!worker->sleeps.load(std::memory_order_relaxed)) return true;
  }
  WakeOne();
  return true;
}

bool Workers::WakeOne() {
  for (const auto& worker : workers_) {
    if (!worker->sleeps.load(std::memory_order_relaxed)) continue;
    if (!worker->sleeps.exchange(false, std::memory_order_relaxed)) continue;
    worker->bell.Ring();
    return true;
  }
  return false;
}

// Moves the front past work items whose pieces are all taken.
Workers::Slot* Workers::FirstWithPieces(std::uint64_t& at) {
  at = front_.load(std::memory_order_acquire);
  while (at < written_.load(std::memory_order_acquire)) {
    Slot& slot = slots_[at % kWorksMax];
    if (PieceCursor(slot.cursor.load(std::memory_order_relaxed)).left() > 0) return &slot;
    if (front_.compare_exchange_strong(at, at + 1, std::memory_order_acq_rel)) ++at;
  }
  return nullptr;
}

// The front may have advanced since: a piece of the later work item in its slot is as good.
bool Workers::Take(End end, Piece& piece) {
  const std::uint64_t one = end == End::kFront ? PieceCursor::kOneOfFront : PieceCursor::kOneOfBack;
  std::uint64_t at = 0;
  while (Slot* const slot = FirstWithPieces(at)) {
    const PieceCursor cursor(slot->cursor.fetch_add(one, std::memory_order_acquire));
    if (cursor.left() == 0) continue;
    const std::uint64_t next =
        end == End::kFront ? cursor.of_front : cursor.pieces - 1 - cursor.of_back;
    piece.slot = slot;
    piece.first = next * slot->piece_elements;
    piece.more = cursor.left() > 1 || at + 1 < written_.load(std::memory_order_relaxed);
    return true;
  }
  return false;
}

bool Workers::DoPiece(const Piece& piece, record::EventRing* track, std::uint64_t& now_ns) {
  Slot& slot = *piece.slot;
  const collective::LocalWork& work = *slot.work;
  const std::uint64_t elements =
      std::min(slot.piece_elements, work.elements - std::min(work.elements, piece.first));
  record::Event event{
      .time_ns = now_ns, .bytes = BytesOf(work, elements), .kind = record::EventKind::kWorked};
  event.set_name(slot.operation);
  if (elements > 0) DoPart(work, piece.first, elements, slot.stores);
  now_ns = platform::MonotonicNow();
  event.duration_ns = now_ns - event.time_ns;
  if (track != nullptr) track->Write(event);
  slot.work_ns.fetch_add(event.duration_ns, std::memory_order_relaxed);
  // All threads' writes happen before the loop learns of it.
  return slot.left.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

bool Workers::Help() {
  Piece piece;
  if (!Take(End::kFront, piece)) return false;
  std::uint64_t now = platform::MonotonicNow();
  const std::uint64_t enough = now + kEnoughNs;
  do {
    if (DoPiece(piece, loop_track_, now)) done_here_.push_back(IndexOf(*piece.slot));
  } while (now < enough && Take(End::kFront, piece));
  return true;
}

std::size_t Workers::Poll(std::vector<std::uint64_t>& done) {
  const std::size_t before = done.size();
  const auto answer = [&](std::uint32_t index) {
    Slot& slot = slots_[index];
    store_choice_.Learn(StoredWorkOf(*slot.work), slot.stores, BytesTouched(*slot.work),
                        slot.work_ns.load(std::memory_order_relaxed));
    slot.used = false;
    ++polled_;
    done.push_back(slot.cookie);
  };
  for (const std::uint32_t index : done_here_) answer(index);
  done_here_.clear();
  std::uint32_t index = 0;
  for (const auto& worker : workers_) {
    while (worker->done.Pop(index)) answer(index);
  }
  return done.size() - before;
}

bool Workers::PrepareToSleep() {
  if (!done_here_.empty()) return false;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i]->done.PrepareToSleep()) continue;
    for (std::size_t k = 0; k < i; ++k) workers_[k]->done.WakeUp();
    return false;
  }
  return true;
}

void Workers::WakeUp() {
  for (const auto& worker : workers_) worker->done.WakeUp();
}

void Workers::Run(Worker& worker) {
  platform::RaiseThreadPriority();
  queue::AdaptiveSpin spin(scheduling_.waiting);
  Piece piece;
  std::uint64_t now = platform::MonotonicNow();
  while (!stop_.load(std::memory_order_acquire)) {
    if (Take(End::kBack, piece)) {
      spin.Found(now);
      const bool moved = AvoidLoop();
      const bool woke = piece.more && WakeOne();
      if (moved || woke) now = platform::MonotonicNow();
      if (!DoPiece(piece, worker.track, now)) continue;
      worker.done.Push(IndexOf(*piece.slot));
      if (!worker.done.ConsumerSleeps()) continue;
      loop_bell_.Ring();
      now = platform::MonotonicNow();
      continue;
    }
    // A worker on the loop's core would see work only after the loop had done all of it.
    if (spin.Saw(written_.load(std::memory_order_relaxed), now)) AvoidLoop();
    if (!spin.LookAgain(now)) Sleep(worker);
    now = platform::MonotonicNow();
  }
}

// If every thread spins and yields, the scheduler sees no idle core and may leave two busy threads
// on one.
bool Workers::AvoidLoop() {
  if (!scheduling_.workers_avoid_loop) return false;
  const std::uint32_t core = platform::CurrentCore();
  if (core != loop_core_.load(std::memory_order_relaxed)) return false;
  platform::LeaveCore(core);
  return true;
}

// Same order as in proto/queue/ring.h: Submit stores the work, then reads `sleeps`; this does the
// reverse.
void Workers::Sleep(Worker& worker) {
  worker.sleeps.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!HasPieces() && !stop_.load(std::memory_order_acquire)) {
    pollfd waited{worker.bell.descriptor(), POLLIN, 0};
    ::poll(&waited, 1, -1);
    worker.bell.Drain();
  }
  worker.sleeps.store(false, std::memory_order_relaxed);
}

}  // namespace mlxcomm
