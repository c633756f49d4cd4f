// How one rank times all_reduce, the same for every system that is compared: each system's program
// is an AllReduceSystem and `return TimedMain(argc, argv, ...)`. For each size it warms up, agrees
// with all ranks on a number of repetitions (by an all_reduce), times that many, and checks every
// element of every result.
//
//   PROGRAM FOLDER SECONDS PAUSE_SECONDS BYTES...
//   below 64 KiB    back to back, in batches of about 100 us, so that the clock does not count
//   from there on   one at a time, as training does it: each rank writes its input again, all meet,
//                   the operation is timed, each rank reads its result (and checks it); back to
//                   back the data would stay in the caches of the rank that reduces it
//   with a pause    every size so; after the meeting all compute at least that long and begin at
//                   once
//
// Writes FOLDER/rank-N.json. Owner: main. Thread: one, main's. Memory: the system's own buffers,
// one size at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mlxcomm::bench {

class AllReduceSystem {
 public:
  virtual ~AllReduceSystem() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  // Buffers for that many floats; the previous ones are freed.
  virtual void Prepare(std::uint64_t count) = 0;
  virtual float* input() = 0;
  virtual const float* output() = 0;
  virtual void Run() = 0;
  // Returns once all ranks have called.
  virtual void Meet() = 0;
  // The input has been written again. A program that plays several ranks writes theirs here.
  virtual void OnFilled() {}
  // When it attached to what it needs before joining; 0 if it needs nothing.
  virtual double attached_seconds() const { return 0; }
};

// Seconds on a clock that all processes of the machine share.
double Now();

// Connects and joins; an exception ends the program with an error.
using MakeSystem = std::function<std::unique_ptr<AllReduceSystem>()>;
int TimedMain(int argc, char** argv, const MakeSystem& make);

// An environment variable that must be set, and as a number.
std::string Environment(const char* name);
std::uint32_t EnvironmentNumber(const char* name);

}  // namespace mlxcomm::bench
