// The threads that combine and copy what is too large for the engine to touch at once.
//
//   engine ──work──▶ ring of works, each with one cursor ─▶ pieces ─▶ kernels
//                       ▲              ▲            ▲
//                    worker         worker        engine, where it has nothing else
//                       └── done ring ─┴─▶ engine
//
// A piece is so small that what it reads and writes stays in a core's cache, and that
// the engine is never away for more than some ten microseconds. All take pieces from the
// cursor of the oldest work, so all cores work from the first piece to the last. The
// engine wakes one worker, who wakes the next while there is more to do.
//
//   cursor: [pieces | next]   one fetch_add takes a piece; at next >= pieces there is none.
//   A slot is used again only after its work's last piece was done and polled.
//
// Whoever ends the engine ends the workers before the memory that their work names:
// the destructor waits for the piece in hand, and drops what nobody has begun.
//
// Owner: Engine. Thread: Submit, Help, Poll, PrepareToSleep on the engine thread.
// Memory: rings fixed at creation. No thread left at start: the program ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/fabric/spsc_ring.h"
#include "daemon/platform/wakeup.h"
#include "daemon/store_choice.h"
#include "daemon/telemetry/flight_recorder.h"
#include "proto/queue/adaptive_spin.h"

namespace mlxcomm {

class Workers {
 public:
  static constexpr std::size_t kWorksMax = 1024;  // Submitted and not polled yet.
  // What a piece reads and writes.
  static constexpr std::uint64_t kPieceBytes = 256 * 1024;

  // Each worker writes what it does into a track of `recorder`, which outlives them.
  // cache_bytes 0: of this machine's last-level cache.
  Workers(std::uint32_t count, platform::Wakeup& engine_bell, telemetry::FlightRecorder& recorder,
          std::uint64_t cache_bytes = 0);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // More than a piece, hence worth a hand-over to another thread.
  static bool IsWorthwhile(const collective::LocalWork& work);
  // The same work on the calling thread, stored into the cache.
  static void Do(const collective::LocalWork& work);

  // False: the ring is full, or there is no worker; do it yourself.
  bool Submit(const collective::LocalWork* work, std::uint64_t cookie,
              const telemetry::Name& operation);
  // Does one piece of what was submitted. False: all were taken.
  bool Help();
  // Moves the cookies of finished work to the end of `done`.
  std::size_t Poll(std::vector<std::uint64_t>& done);
  bool PrepareToSleep();
  void WakeUp();

  // Of what was done here, and by the engine itself (CountOwn).
  struct Traffic {
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_written = 0;
  };
  Traffic traffic() const;
  const StoreChoice& store_choice() const { return store_choice_; }
  void CountOwn(const collective::LocalWork& work) { engine_.Count(work, work.elements); }

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> cursor{0};  // Pieces in the upper half, the next below.
    std::atomic<std::uint32_t> left{0};    // Pieces not done yet.
    bool used = false;                     // The engine's alone.
    const collective::LocalWork* work = nullptr;
    std::uint64_t cookie = 0;
    std::uint64_t piece_elements = 0;
    reduce::Stores stores = reduce::Stores::kOrdinary;
    std::atomic<std::uint64_t> work_ns{0};  // Of all pieces.
    telemetry::Name operation;
  };
  struct Piece {
    Slot* slot = nullptr;
    std::uint64_t first = 0;  // Element.
    bool more = false;        // There was more to take.
  };
  // Whoever does pieces: a worker, or the engine.
  struct alignas(64) Hand {
    void Count(const collective::LocalWork& work, std::uint64_t elements);
    std::atomic<std::uint64_t> bytes_read{0};  // Written by its thread alone.
    std::atomic<std::uint64_t> bytes_written{0};
    telemetry::EventRing* track = nullptr;     // nullptr: there are too many.
  };
  struct Worker {
    Hand hand;
    fabric::SpscRing<std::uint32_t> done{kWorksMax};  // Slots; never full.
    platform::Wakeup bell;
    alignas(64) std::atomic<bool> sleeps{false};
    std::thread thread;
  };
  void Run(Worker& worker);
  void Sleep(Worker& worker);
  void AvoidEngine();
  Slot* FirstWithPieces(std::uint64_t& at);  // Its number, too; nullptr: none.
  bool HasPieces();
  bool Take(Piece& piece);
  // True: it was its work's last one.
  static bool DoPiece(const Piece& piece, Hand& hand);
  void WakeOne();
  std::uint32_t IndexOf(const Slot& slot) const {
    return static_cast<std::uint32_t>(&slot - slots_.get());
  }

  platform::Wakeup& engine_bell_;
  telemetry::FlightRecorder& recorder_;
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> written_{0};  // Works submitted.
  alignas(64) std::atomic<std::uint64_t> front_{0};    // Before it nothing is left to take.
  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> engine_core_{0};  // When it last submitted.
  std::vector<std::unique_ptr<Worker>> workers_;
  Hand engine_;
  StoreChoice store_choice_;
  std::vector<std::uint32_t> done_here_;  // Slots whose last piece the engine did.
};

}  // namespace mlxcomm
