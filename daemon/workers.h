// The threads that combine and copy what is too large for the engine to touch.
//
//   engine ──work──▶ worker's ring ─▶ kernels ─▶ done ring ──▶ engine
//
// Work goes round the workers; each has its own pair of rings, so no two threads
// ever write to one.
//
// Whoever ends the engine ends the workers before the memory that their work names:
// the destructor waits for the piece in hand, and drops what nobody has begun.
//
// Owner: Engine. Thread: Submit, Poll, PrepareToSleep on the engine thread.
// Memory: rings fixed at creation. No thread left at start: the program ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/fabric/spsc_ring.h"
#include "daemon/platform/wakeup.h"
#include "daemon/telemetry/flight_recorder.h"

namespace mlxcomm {

class Workers {
 public:
  // Each worker writes what it does into a track of `recorder`, which outlives them.
  Workers(std::uint32_t count, platform::Wakeup& engine_bell, telemetry::FlightRecorder& recorder);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Large enough to be worth a hand-over to another thread.
  static bool IsWorthwhile(const collective::LocalWork& work);
  // The same work on the calling thread.
  static void Do(const collective::LocalWork& work);

  // False: all rings are full; do it yourself.
  bool Submit(const collective::LocalWork* work, std::uint64_t cookie,
              const telemetry::Name& operation);
  // Moves the cookies of finished work to the end of `done`.
  std::size_t Poll(std::vector<std::uint64_t>& done);
  bool PrepareToSleep();
  void WakeUp();

 private:
  struct Item {
    const collective::LocalWork* work = nullptr;
    std::uint64_t cookie = 0;
    telemetry::Name operation;
  };
  struct Worker {
    fabric::SpscRing<Item> todo{1024};
    fabric::SpscRing<std::uint64_t> done{1024};
    platform::Wakeup bell;
    telemetry::EventRing* track = nullptr;  // nullptr: there are too many.
    std::thread thread;
  };
  void Run(Worker& worker);
  static void DoRecorded(const Item& item, telemetry::EventRing* track);

  platform::Wakeup& engine_bell_;
  telemetry::FlightRecorder& recorder_;
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t next_ = 0;
};

}  // namespace mlxcomm
