// Signals while an operation waits. Python only records a signal until the evaluation returns,
// which may take until the other ranks call. So this handler notices it as well, and passes it on
// to the previous handler:
//
//   kAtOnce  its handler ends what it does: every wait is given up (Python's KeyboardInterrupt)
//   kSecond  its handler returns: the wait continues until another signal ends it (a C program)
//   kAsked   a thread runs the handler meanwhile, and calls Interrupt() if it does not return
//
// A handler that is set later, as by Python's signal.signal(), replaces ours without knowing about
// it; so each wait checks SIGINT's handler, and puts ours in front again (Watched's comment). If
// the program does not handle a signal, it ends the process as usual.
//
// Owner: the process, once in each library that contains this file. Thread: any; the handler
// touches atomics and writes to a pipe. Memory: kHandlersMax handlers for each signal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcomm::client {

// Our handler may find this many different ones in front of it; after that it stays behind.
inline constexpr std::size_t kHandlersMax = 16;
inline constexpr std::size_t kHandingOnMax = 16;  // Threads that handle one signal at once.
inline constexpr int kSignalsMax = 32;            // Signals below can be watched.

// A wait, from before it begins until it ends. The first of several discards an earlier Ctrl-C,
// which Python has handled.
class UnderWay {
 public:
  UnderWay();
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

int WasInterrupted(void* unused);  // Passed in mlxcomm_connect_options.

enum class OnSignal : std::uint8_t { kAtOnce, kSecond, kAsked };
// Puts our handler in front of the program's, if it has one. SIGINT begins as kAtOnce.
void Watch(int signal, OnSignal decision);
void Interrupt();    // Every wait in progress.
bool AnyUnderWay();  // Returns whether a wait is in progress.
// Returns how many signals of this number, which is kAsked, have arrived.
std::uint32_t Arrived(int signal);
// Returns the read end of a pipe, or -1 if it could not be made. The first signal after each call
// of Arrived writes its number there, as one byte.
int ArrivalsPipe();

}  // namespace mlxcomm::client
