// The threads that combine and copy what is too large for the loop to do at once.
//
//   loop ──work──▶ ring of works, each with one cursor ─▶ pieces ─▶ kernels
//                       ▲              ▲            ▲
//                    worker         worker        loop, when it has nothing else to do
//                       └── done ring ─┴─▶ loop
//
// All take pieces (work_pieces.h) of the oldest work; see README.md, Workers. A slot is reused only after
// its work's last piece was done and polled. The workers must end before the memory that their work names:
// the destructor waits for the pieces in hand and drops work that was not begun.
//
// Owner: Loop. Thread: Submit, Help, Poll, IsUnderWay, PrepareToSleep on the loop's thread. Memory: rings
// fixed at creation. No thread can be started: the program ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rail/spsc_ring.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/reduce/store_choice.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm {

class Workers {
 public:
  static constexpr std::size_t kWorksMax = 1024;  // Submitted and not yet polled.

  // Each worker records its work in a track of `recorder`, which outlives them.
  // cache_bytes 0: of this machine's last-level cache.
  Workers(const queue::SchedulingPolicy& scheduling, platform::Wakeup& loop_bell,
          record::FlightRecorder& recorder, std::uint64_t cache_bytes = 0);
  ~Workers();

  // The same work on the calling thread, stored into the cache.
  static void Do(const collective::LocalWork& work);

  // False: the ring is full, or there is no worker; the caller does the work.
  bool Submit(const collective::LocalWork* work, std::uint64_t cookie,
              const OperationKey& operation);
  // Does pieces of submitted works, for some microseconds. False: all pieces were taken.
  bool Help();
  // Moves the cookies of finished work to the end of `done`.
  std::size_t Poll(std::vector<std::uint64_t>& done);
  // A work was submitted and not yet polled. If Help finds no piece of it, other threads do them.
  bool IsUnderWay() const { return polled_ != written_.load(std::memory_order_relaxed); }
  bool PrepareToSleep();
  void WakeUp();

  // Of work done here, and by the loop itself (CountOwn).
  struct Traffic {
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_written = 0;
  };
  Traffic traffic() const;
  const reduce::StoreChoice& store_choice() const { return store_choice_; }
  void CountOwn(const collective::LocalWork& work) { loop_hand_.Count(work, work.elements); }

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> cursor{0};  // PieceCursor
    std::atomic<std::uint32_t> left{0};    // Pieces not done yet.
    bool used = false;                     // Used by the loop alone.
    const collective::LocalWork* work = nullptr;
    std::uint64_t cookie = 0;
    std::uint64_t piece_elements = 0;
    reduce::Stores stores = reduce::Stores::kOrdinary;
    std::atomic<std::uint64_t> work_ns{0};  // Of all pieces.
    OperationKey operation;
  };
  struct Piece {
    Slot* slot = nullptr;
    std::uint64_t first = 0;  // Element.
    bool more = false;        // There were more pieces.
  };
  // A thread that does pieces: a worker, or the loop.
  struct alignas(64) Hand {
    void Count(const collective::LocalWork& work, std::uint64_t elements);
    std::atomic<std::uint64_t> bytes_read{0};  // Written by its thread alone.
    std::atomic<std::uint64_t> bytes_written{0};
    record::EventRing* track = nullptr;  // nullptr: there are too many tracks.
  };
  struct Worker {
    Hand hand;
    rail::SpscRing<std::uint32_t> done{kWorksMax};  // Slots; never full.
    platform::Wakeup bell;
    alignas(64) std::atomic<bool> sleeps{false};
    std::thread thread;
  };
  void Run(Worker& worker);
  void Sleep(Worker& worker);
  bool AvoidLoop();
  Slot* FirstWithPieces(std::uint64_t& at);  // Also returns its number in `at`; nullptr: none.
  bool HasPieces() {
    std::uint64_t at = 0;
    return FirstWithPieces(at) != nullptr;
  }
  enum class End : std::uint8_t { kFront, kBack };
  bool Take(End end, Piece& piece);
  // Starts at now_ns and sets it to the end. True: it was its work's last piece.
  static bool DoPiece(const Piece& piece, Hand& hand, std::uint64_t& now_ns);
  bool WakeOne();
  std::uint32_t IndexOf(const Slot& slot) const {
    return static_cast<std::uint32_t>(&slot - slots_.get());
  }

  const queue::SchedulingPolicy scheduling_;
  platform::Wakeup& loop_bell_;
  record::FlightRecorder& recorder_;
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> written_{0};  // Works submitted.
  alignas(64) std::atomic<std::uint64_t> front_{0};    // No piece before it is left.
  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> loop_core_{0};  // When it last submitted.
  std::vector<std::unique_ptr<Worker>> workers_;
  Hand loop_hand_;
  reduce::StoreChoice store_choice_;
  std::uint64_t polled_ = 0;              // Works.
  std::vector<std::uint32_t> done_here_;  // Slots whose last piece the loop has done.
};

}  // namespace mlxcomm
