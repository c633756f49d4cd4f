// Ctrl-C while an operation waits. Python only notes it until the evaluation returns, and
// that would be when the other ranks come; so it is seen here as well, handed on to who had
// it before, and the wait is given up.
//
// A handler that is set later, as by Python's signal.signal(), replaces ours and knows nothing
// of it; so each wait looks, and puts ours in front again. One that hands on to ours, a second
// copy of this file for one, is then before and behind us:
//
//   SIGINT ──▶ ours ──▶ the latest ──▶ ours ──▶ the first that was there; a third time: nothing
//
// Where nobody handles SIGINT it ends the process, as ever.
//
// Owner: the process, once in each library that has this file. Thread: any; the handler touches
// atomics. Memory: kHandlersMax handlers.
#pragma once

#include <cstddef>

namespace mlxcomm::client {

// Different ones that are ever found in front of ours; after so many it stays behind.
inline constexpr std::size_t kHandlersMax = 16;

// A wait, from before it begins to its end. The first of several forgets a Ctrl-C that came
// before: Python has taken it.
class UnderWay {
 public:
  UnderWay();
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
};

int WasInterrupted(void* unused);  // For mlxcomm_connect_options.

}  // namespace mlxcomm::client
