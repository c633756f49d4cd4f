// One rank's part of a measurement, in the manner of nccl-tests: for each size a few
// operations that do not count, then some that are timed together, then one whose result is
// checked. Rank 0 hears of all ranks' times and of what was wrong anywhere.
//
// Owner: main. Thread: main. Memory: one input and one output in the arena, of the largest
// size; in place they are one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/bench/values.h"

namespace mlxcomm::bench {

struct MeasureOptions {
  std::string socket_path;  // Empty: as every client looks for it.
  std::string job;
  Measured measured;
  std::vector<std::uint64_t> counts;
  std::uint32_t iterations = 20;
  std::uint32_t warm_up = 5;
  bool check = true;
  bool in_place = false;  // The result over the input; where it MayBeInPlace.
};

// Of one size.
struct Outcome {
  std::uint64_t count = 0;
  std::uint64_t operations = 0;  // All that were carried out, warm-up and check too.
  double mean_ns = 0;            // An operation's, over ranks and iterations.
  double fastest_ns = 0;         // Of the ranks' means.
  double slowest_ns = 0;
  std::uint64_t wrong = 0;  // Elements, of all ranks.
};

// `go` is asked before each size on rank 0 (false ends it), `done` told after it. Throws
// mlxcomm::Error.
struct MeasureListener {
  std::function<bool()> go;
  std::function<void(const Outcome&)> done;
};
void Measure(const MeasureOptions& options, const MeasureListener& listener);

}  // namespace mlxcomm::bench
