// How one rank times all_reduce, the same for every system that is compared: each
// system's program is an AllReduceSystem and `return TimedMain(argc, argv, ...)`.
//
//   PROGRAM FOLDER SECONDS BYTES... [pause=SECONDS] [hold]
//
// For each size: warm up, find out how long one takes, agree with all ranks on a number
// (by an all_reduce), time that many, check every element of every result.
//
//   below 64 KiB  back to back, in batches of about 100 us: a clock's reading is no part of it
//   from there on one at a time, as training does it: each rank writes its input anew, all
//                 meet, the operation is timed, each rank reads its result (and checks it).
//                 Back to back the data would stay in the caches of whoever reduces it.
//   with a pause  every size so, but for the meeting: all agree on a moment, write their input, compute
//                 for that long at the least (pause.h), and begin at once, as in a training step.
//
// Writes FOLDER/rank-N.json; with `hold` it then stays until standard input ends, so that
// whoever started it can look at it while it is idle.
//
// Owner: main. Thread: one, main's. Memory: the system's own buffers, one size at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mlxcomm::bench {

class AllReduceSystem {
 public:
  virtual ~AllReduceSystem() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  // Buffers for that many floats; the ones before are given back.
  virtual void Prepare(std::uint64_t count) = 0;
  virtual float* input() = 0;
  virtual const float* output() = 0;
  virtual void Run() = 0;
  // Returns once all ranks have called.
  virtual void Meet() = 0;
  // Input has been written anew. A program that stands for several ranks writes theirs here.
  virtual void OnFilled() {}
  // When it was attached to whatever it needs before it may join; 0: there is no such thing.
  virtual double attached_seconds() const { return 0; }
};

// Seconds of a clock that all processes of the machine share.
double Now();

// Connects and joins; what it throws ends the program with an error.
using MakeSystem = std::function<std::unique_ptr<AllReduceSystem>()>;
int TimedMain(int argc, char** argv, const MakeSystem& make);

// An environment variable that must be there, and as a number.
std::string Environment(const char* name);
std::uint32_t EnvironmentNumber(const char* name);

}  // namespace mlxcomm::bench
