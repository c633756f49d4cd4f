#include "daemon/workers.h"

#include <poll.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/reduce/kernels.h"

namespace mlxcomm {
namespace {

// Pieces begin at such multiples, so that all but the last have whole vectors.
constexpr std::uint64_t kPieceElements = 512;
constexpr std::uint32_t kFewCores = 4;

std::uint64_t BytesOf(const collective::LocalWork& work, std::uint64_t elements) {
  return elements * DataTypeBytes(work.type);
}

std::uint64_t BytesTouched(const collective::LocalWork& work) {
  return BytesOf(work, work.elements) * (work.input_count + work.output_count);
}

std::uint64_t ElementsOfPiece(const collective::LocalWork& work) {
  const std::uint64_t each =
      DataTypeBytes(work.type) * std::max(1u, work.input_count + work.output_count);
  return std::max<std::uint64_t>(1, Workers::kPieceBytes / each / kPieceElements) *
         kPieceElements;
}

void DoPart(const collective::LocalWork& work, std::uint64_t first, std::uint64_t elements,
            reduce::Stores stores) {
  std::array<const std::byte*, collective::kLocalRanksMax> inputs;
  std::array<std::byte*, collective::kLocalRanksMax> outputs;
  const std::uint64_t offset = BytesOf(work, first);
  for (std::uint32_t k = 0; k < work.input_count; ++k) inputs[k] = work.inputs[k] + offset;
  for (std::uint32_t k = 0; k < work.output_count; ++k) outputs[k] = work.outputs[k] + offset;
  reduce::Combine({work.type, work.op, work.divisor}, inputs.data(), work.input_count,
                  outputs.data(), work.output_count, elements, stores);
}

}  // namespace

Workers::Workers(std::uint32_t count, platform::Wakeup& engine_bell,
                 telemetry::FlightRecorder& recorder, std::uint64_t cache_bytes)
    : engine_bell_(engine_bell),
      recorder_(recorder),
      slots_(std::make_unique<Slot[]>(kWorksMax)),
      store_choice_(cache_bytes != 0 ? cache_bytes : platform::LastLevelCacheBytes()) {
  done_here_.reserve(kWorksMax);
  if (count > 0) engine_.track = recorder.AddTrack(telemetry::TrackKind::kWorker, "engine");
  for (std::uint32_t i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_[i]->hand.track =
        recorder.AddTrack(telemetry::TrackKind::kWorker, absl::StrCat("worker ", i));
  }
  // They look at each other from the start.
  for (const auto& worker : workers_) {
    worker->thread = std::thread([this, raw = worker.get()] { Run(*raw); });
  }
}

Workers::~Workers() {
  stop_.store(true, std::memory_order_release);
  for (const auto& worker : workers_) worker->bell.Ring();
  for (const auto& worker : workers_) {
    worker->thread.join();
    recorder_.CloseTrack(worker->hand.track);
  }
  recorder_.CloseTrack(engine_.track);
}

bool Workers::IsWorthwhile(const collective::LocalWork& work) {
  return BytesTouched(work) > kPieceBytes && work.elements > kPieceElements;
}

void Workers::Do(const collective::LocalWork& work) {
  if (work.elements > 0) DoPart(work, 0, work.elements, reduce::Stores::kOrdinary);
}

bool Workers::Submit(const collective::LocalWork* work, std::uint64_t cookie,
                     const telemetry::Name& operation) {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  Slot& slot = slots_[written % kWorksMax];
  if (workers_.empty() || slot.used) return false;
  // Its last work was done, so nothing is left to take there, but perhaps nobody has seen it.
  if (written - front_.load(std::memory_order_acquire) >= kWorksMax) HasPieces();
  slot.used = true;
  engine_core_.store(platform::CurrentCore(), std::memory_order_relaxed);
  slot.work = work;
  slot.cookie = cookie;
  slot.operation = operation;
  slot.stores = store_choice_.Choose(*work);
  slot.work_ns.store(0, std::memory_order_relaxed);
  slot.piece_elements = ElementsOfPiece(*work);
  const std::uint64_t pieces = std::max<std::uint64_t>(
      1, (work->elements + slot.piece_elements - 1) / slot.piece_elements);
  slot.left.store(static_cast<std::uint32_t>(pieces), std::memory_order_relaxed);
  slot.cursor.store(pieces << 32, std::memory_order_release);
  written_.store(written + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Who is awake looks for more before it sleeps, and wakes the next.
  for (const auto& worker : workers_) {
    if (!worker->sleeps.load(std::memory_order_relaxed)) return true;
  }
  WakeOne();
  return true;
}

void Workers::WakeOne() {
  for (const auto& worker : workers_) {
    if (!worker->sleeps.load(std::memory_order_relaxed)) continue;
    if (!worker->sleeps.exchange(false, std::memory_order_relaxed)) continue;
    return worker->bell.Ring();
  }
}

// Moves the front beyond works of which all was taken.
Workers::Slot* Workers::FirstWithPieces(std::uint64_t& at) {
  at = front_.load(std::memory_order_acquire);
  while (at < written_.load(std::memory_order_acquire)) {
    Slot& slot = slots_[at % kWorksMax];
    const std::uint64_t cursor = slot.cursor.load(std::memory_order_relaxed);
    if ((cursor & 0xffffffff) < cursor >> 32) return &slot;
    if (front_.compare_exchange_strong(at, at + 1, std::memory_order_acq_rel)) ++at;
  }
  return nullptr;
}

bool Workers::HasPieces() {
  std::uint64_t at = 0;
  return FirstWithPieces(at) != nullptr;
}

// A front that has moved on meanwhile may show a later work in its slot: a piece of that
// is as good, and where there is none the front is read anew.
bool Workers::Take(Piece& piece) {
  std::uint64_t at = 0;
  while (Slot* const slot = FirstWithPieces(at)) {
    const std::uint64_t cursor = slot->cursor.fetch_add(1, std::memory_order_acquire);
    const std::uint64_t next = cursor & 0xffffffff;
    if (next >= cursor >> 32) continue;  // Others were faster.
    piece.slot = slot;
    piece.first = next * slot->piece_elements;
    piece.more = next + 1 < cursor >> 32 || at + 1 < written_.load(std::memory_order_relaxed);
    return true;
  }
  return false;
}

void Workers::Hand::Count(const collective::LocalWork& work, std::uint64_t elements) {
  const std::uint64_t bytes = BytesOf(work, elements);
  bytes_read.store(bytes_read.load(std::memory_order_relaxed) + bytes * work.input_count,
                   std::memory_order_relaxed);
  bytes_written.store(bytes_written.load(std::memory_order_relaxed) + bytes * work.output_count,
                      std::memory_order_relaxed);
}

bool Workers::DoPiece(const Piece& piece, Hand& hand) {
  Slot& slot = *piece.slot;
  const collective::LocalWork& work = *slot.work;
  const std::uint64_t elements =
      std::min(slot.piece_elements, work.elements - std::min(work.elements, piece.first));
  telemetry::Event event;
  event.kind = telemetry::EventKind::kWorked;
  event.set_name(slot.operation);
  event.bytes = BytesOf(work, elements);
  event.time_ns = platform::MonotonicNow();
  if (elements > 0) DoPart(work, piece.first, elements, slot.stores);
  event.duration_ns = platform::MonotonicNow() - event.time_ns;
  if (hand.track != nullptr) hand.track->Write(event);
  hand.Count(work, elements);
  slot.work_ns.fetch_add(event.duration_ns, std::memory_order_relaxed);
  // What all have written is before the answer to the engine.
  return slot.left.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

bool Workers::Help() {
  Piece piece;
  if (!Take(piece)) return false;
  if (DoPiece(piece, engine_)) done_here_.push_back(IndexOf(*piece.slot));
  return true;
}

std::size_t Workers::Poll(std::vector<std::uint64_t>& done) {
  const std::size_t before = done.size();
  const auto answer = [&](std::uint32_t index) {
    Slot& slot = slots_[index];
    store_choice_.Learn(*slot.work, slot.stores, BytesTouched(*slot.work),
                        slot.work_ns.load(std::memory_order_relaxed));
    slot.used = false;
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

Workers::Traffic Workers::traffic() const {
  Traffic traffic;
  const auto add = [&](const Hand& hand) {
    traffic.bytes_read += hand.bytes_read.load(std::memory_order_relaxed);
    traffic.bytes_written += hand.bytes_written.load(std::memory_order_relaxed);
  };
  add(engine_);
  for (const auto& worker : workers_) add(worker->hand);
  return traffic;
}

void Workers::Run(Worker& worker) {
  const std::uint32_t cores = platform::CoreCount();
  queue::AdaptiveSpin spin(queue::SpinLimits::For(cores));
  Piece piece;
  while (!stop_.load(std::memory_order_acquire)) {
    const std::uint64_t now = platform::MonotonicNow();
    if (Take(piece)) {
      spin.Found(now);
      if (cores <= kFewCores) AvoidEngine();
      if (piece.more) WakeOne();
      if (!DoPiece(piece, worker.hand)) continue;
      worker.done.Push(IndexOf(*piece.slot));
      if (worker.done.ConsumerSleeps()) engine_bell_.Ring();
    } else if (!spin.LookAgain(now)) {
      Sleep(worker);
    }
  }
}

// Where all look and give way, no core seems idle, and the system leaves two who work on one
// core while the other has but lookers.
void Workers::AvoidEngine() {
  const std::uint32_t core = platform::CurrentCore();
  if (core == engine_core_.load(std::memory_order_relaxed)) platform::LeaveCore(core);
}

// As in ring.h: who submits stores the work and looks at `sleeps`, we the other way round.
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
