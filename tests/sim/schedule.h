// Virtual time: the events to come, by time. Nothing else in the simulator moves time, so a run
// takes as long as computing its events, not as long as they describe.
//
//   At(time, what) ──▶ heap by (time, order of the calls) ──RunOne──▶ what()
//
// A digest of all events distinguishes two runs: every value that decides anything is mixed into
// it.
//
// Owner: World. Thread: one. Memory: one entry for each event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/sim/random.h"

namespace mlxcomm::sim {

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};
inline constexpr std::uint64_t kMicrosecond = 1'000;
inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000'000'000;

class Schedule {
 public:
  std::uint64_t now_ns() const { return now_ns_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t digest() const { return digest_; }

  void At(std::uint64_t time_ns, std::function<void()> what) {
    heap_.push_back({std::max(time_ns, now_ns_), next_++, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end());
  }
  void After(std::uint64_t delay_ns, std::function<void()> what) {
    At(now_ns_ + delay_ns, std::move(what));
  }
  void Note(std::uint64_t value) { digest_ = Mix(digest_ ^ value); }

  // False if nothing more will happen, or nothing before `end_ns`.
  bool RunOne(std::uint64_t end_ns) {
    if (heap_.empty() || heap_.front().time_ns > end_ns) return false;
    std::pop_heap(heap_.begin(), heap_.end());
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ns_ = event.time_ns;
    ++events_;
    Note(event.time_ns);
    event.what();
    return true;
  }

 private:
  struct Event {
    std::uint64_t time_ns = 0;
    std::uint64_t order = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : order > other.order;
    }
  };
  std::uint64_t now_ns_ = 1 * kSecond;  // Zero has a special meaning in some places.
  std::uint64_t next_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t digest_ = 0;
  std::vector<Event> heap_;
};

}  // namespace mlxcomm::sim
