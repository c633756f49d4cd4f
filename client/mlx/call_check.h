// MLXCOMM_CHECK: identifies the program's call behind each operation, so that ranks which pair
// different calls of the same shape get an error instead of wrong values. Off by default.
//
//   Python notes the line ─SetCallSite─▶ Build: NextCall ─▶ Operation::checked
//     ─▶ 24 bits in the request
//   MISMATCH "... (check 00a1b2) ..." ─ExplainChecks─▶ "... (the 7th all_sum, train.py:41)"
//
// All ranks make the same calls, so a rank can look up the others' words in its own table.
//
// Owner: the process. Thread: any. Memory: kCallsKept calls, and as many numbers for each group.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mlxcomm::graph {

inline constexpr std::size_t kCallsKept = 4096;

// A line of the program that builds operations. One object for all its calls.
struct CallSite {
  CallSite(std::string function, std::string place, std::string name);
  std::string function, place, name;    // "all_sum", "train.py:41", a call_name or "".
  std::uint64_t hash = 0, counter = 0;  // The counter identifies function and name.
};

struct CheckedCall {
  std::string Text() const;  // "the 7th all_sum, train.py:41"

  std::uint32_t word = 0;  // 24 bits, never 0.
  std::shared_ptr<const CallSite> site;
  std::uint64_t number = 0;           // 0 if not numbered.
  std::uint64_t transformations = 0;  // Counts how often it was differentiated or vectorized.
  std::atomic<bool> evaluated{false};
};

// Counts the calls of a group that were built and compared; the same on all its ranks.
struct CallNumbers {
  std::unordered_map<std::uint64_t, std::uint64_t> built;  // The key is a site's counter.
  std::uint64_t compared = 0;
};

// `values_every`: compares the result of each such operation that is equal on all ranks; 0: never.
void EnableCallChecks(std::uint64_t values_every);
bool ChecksCalls();
// Sets the call site of the operations that this thread builds next. Calls traced by mx.compile are
// not `numbered`, because the number of traces depends on a rank's shapes.
void SetCallSite(std::shared_ptr<const CallSite> site, bool numbered);
// Requires ChecksCalls(). `from`: the call that a gradient or another transformation derives from,
// or null.
std::shared_ptr<CheckedCall> NextCall(CallNumbers& numbers, const std::string& group,
                                      const std::shared_ptr<CheckedCall>& from);
// Replaces the check words in a message by the program's lines.
std::string ExplainChecks(std::string message, std::uint32_t own_rank);
// FNV-1a over eight bytes at a time, equal in every build.
std::uint64_t HashOf(std::string_view bytes);
// Returns whether to compare the results of the group's next operation; the same on all ranks.
bool ComparesValuesNow(CallNumbers& numbers);

}  // namespace mlxcomm::graph
