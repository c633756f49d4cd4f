// Ctrl-C while an operation waits. Python only notes the signal until the evaluation returns, which
// may be when the other ranks come. So this handler notices it as well, passes it on to the
// previous handler, and the wait is given up.
//
// A handler that is set later, as by Python's signal.signal(), replaces ours without knowing about
// it; so each wait checks, and puts ours in front again. A later handler that passes signals on to
// ours, such as a second copy of this file, is then both before and behind ours:
//
//   SIGINT ──▶ ours ──▶ the latest ──▶ ours ──▶ the first handler; a third time: nothing
//
// Where the program does not handle SIGINT, it ends the process as usual.
//
// Owner: the process, once in each library that contains this file. Thread: any; the handler
// touches atomics. Memory: kHandlersMax handlers.
#pragma once

#include <cstddef>

namespace mlxcomm::client {

// How many different handlers ours may find in front of it; after that it stays behind.
inline constexpr std::size_t kHandlersMax = 16;

// A wait, from before it begins to its end. The first of several discards an earlier Ctrl-C, which
// Python has handled.
class UnderWay {
 public:
  UnderWay();
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

int WasInterrupted(void* unused);  // For mlxcomm_connect_options.

}  // namespace mlxcomm::client
