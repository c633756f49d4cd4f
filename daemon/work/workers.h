// The threads that combine and copy what is too much for the loop to do at once.
//
//   loop ──work──▶ ring of work items, each with one cursor ─▶ pieces ─▶ kernels
//                       ▲              ▲            ▲
//                    worker         worker        loop, when otherwise idle
//                       └── done ring ─┴─▶ loop
//
// A slot is reused after its last piece was done and polled. The destructor waits for pieces that
// have begun and drops the rest. If a thread cannot be started, the program ends.
//
// Owner: Loop. Thread: its public functions on the loop's. Memory: rings of fixed size.
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

// Called on the loop's thread.
class Workers {
 public:
  static constexpr std::size_t kWorksMax = 1024;  // Submitted and not polled.

  // Workers record their work in `recorder`. cache_bytes 0: this machine's last-level cache.
  Workers(const queue::SchedulingPolicy& scheduling, platform::Wakeup& loop_bell,
          record::FlightRecorder& recorder, std::uint64_t cache_bytes = 0);
  ~Workers();

  // False: the ring is full, or there is no worker; the caller does the work.
  bool Submit(const collective::LocalWork* work, std::uint64_t cookie,
              const OperationKey& operation);
  // Does pieces of submitted work for some microseconds. Returns false if all pieces were taken.
  bool Help();
  // Moves the cookies of finished work to the end of `done`.
  std::size_t Poll(std::vector<std::uint64_t>& done);
  // Returns whether submitted work is left to poll. If Help finds no piece of it, other threads do
  // them.
  bool IsUnderWay() const { return polled_ != written_.load(std::memory_order_relaxed); }
  bool PrepareToSleep();
  void WakeUp();

  const reduce::StoreChoice& store_choice() const { return store_choice_; }

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> cursor{0};  // PieceCursor
    std::atomic<std::uint32_t> left{0};    // Unfinished pieces.
    bool used = false;                     // The loop's.
    const collective::LocalWork* work = nullptr;
    std::uint64_t cookie = 0;
    std::uint64_t piece_elements = 0;
    reduce::Stores stores = reduce::Stores::kOrdinary;
    std::atomic<std::uint64_t> work_ns{0};  // The sum over all pieces.
    OperationKey operation;
  };
  struct Piece {
    Slot* slot = nullptr;
    std::uint64_t first = 0;  // Element.
    bool more = false;        // There were more pieces.
  };
  struct Worker {
    record::EventRing* track = nullptr;             // nullptr if there are too many tracks.
    rail::SpscRing<std::uint32_t> done{kWorksMax};  // Slots; never full.
    platform::Wakeup bell;
    alignas(64) std::atomic<bool> sleeps{false};
    std::thread thread;
  };
  void Run(Worker& worker);
  void Sleep(Worker& worker);
  bool AvoidLoop();
  Slot* FirstWithPieces(std::uint64_t& at);  // Sets `at` to its number; nullptr: none.
  bool HasPieces() {
    std::uint64_t at = 0;
    return FirstWithPieces(at) != nullptr;
  }
  enum class End : std::uint8_t { kFront, kBack };
  bool Take(End end, Piece& piece);
  // Starts at now_ns and sets it to the end. Returns whether it was the last piece of its work
  // item.
  static bool DoPiece(const Piece& piece, record::EventRing* track, std::uint64_t& now_ns);
  bool WakeOne();
  std::uint32_t IndexOf(const Slot& slot) const {
    return static_cast<std::uint32_t>(&slot - slots_.get());
  }

  const queue::SchedulingPolicy scheduling_;
  platform::Wakeup& loop_bell_;
  record::FlightRecorder& recorder_;
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> written_{0};  // Submitted.
  alignas(64) std::atomic<std::uint64_t> front_{0};    // No pieces are left before it.
  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> loop_core_{0};  // Set by the last Submit.
  std::vector<std::unique_ptr<Worker>> workers_;
  record::EventRing* loop_track_ = nullptr;
  reduce::StoreChoice store_choice_;
  std::uint64_t polled_ = 0;
  std::vector<std::uint32_t> done_here_;  // Slots that the loop has finished.
};

}  // namespace mlxcomm
