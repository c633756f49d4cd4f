// One rank's part of a measurement, as in nccl-tests: for each size a few operations that do not
// count, then some that are timed together, then one whose result is checked. Rank 0 gets all
// ranks' times and the number of wrong elements.
//
// Owner: main. Thread: main. Memory: one input and one output in the arena, of the largest size; in
// place they are one buffer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/bench/values.h"

namespace mlxcomm::bench {

struct MeasureOptions {
  std::string socket_path;  // Empty: found as by every client.
  std::string job;
  Measured measured;
  std::vector<std::uint64_t> counts;
  std::uint32_t iterations = 20;
  std::uint32_t warm_up = 5;
  bool check = true;
  bool in_place = false;  // The result replaces the input; where it MayBeInPlace.
};

// The result for one size.
struct Outcome {
  std::uint64_t count = 0;
  std::uint64_t operations = 0;  // All, including warm-up and check.
  double mean_ns = 0;            // One operation's, over ranks and iterations.
  double fastest_ns = 0;         // Of the ranks' means.
  double slowest_ns = 0;
  std::uint64_t wrong = 0;  // Elements, over all ranks.
};

// On rank 0 `go` is called before each size (false ends the measurement) and `done` after it.
// Throws mlxcomm::Error.
struct MeasureListener {
  std::function<bool()> go;
  std::function<void(const Outcome&)> done;
};
void Measure(const MeasureOptions& options, const MeasureListener& listener);

}  // namespace mlxcomm::bench
