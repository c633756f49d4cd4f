// MLXCOMM_CHECK: which call of the program an operation is. Ranks that pair different calls of the same shape
// get an error before a wrong value is returned.
//
//   Python notes the line ─SetCallSite─▶ Build: NextCall ─▶ Operation::checked ─▶ 24 bits in the request
//   MISMATCH "... (check 00a1b2) ..." ─ExplainChecks─▶ "... (the 7th all_sum, train.py:41)"
//
// Every rank of one program makes the same calls, so a rank knows the others' words from its own table. Off,
// which is the default, an operation has no call, and nothing is looked up.
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

// A place in the program that builds operations: made once, then the same object for each call.
struct CallSite {
  CallSite(std::string function, std::string place, std::string name);
  std::string function, place, name;    // Such as "all_sum", "train.py:41", and "" or a name.
  std::uint64_t hash = 0, counter = 0;  // The counter is one for each function and name.
};

struct CheckedCall {
  std::string Text() const;  // "the 7th all_sum, train.py:41"

  std::uint32_t word = 0;  // 24 bits, never 0.
  std::shared_ptr<const CallSite> site;
  std::uint64_t number = 0;           // 0: not numbered.
  std::uint64_t transformations = 0;  // How often it was differentiated or vectorized.
  std::atomic<bool> evaluated{false};
};

// How many calls of a group were built and compared. All of its ranks count alike.
struct CallNumbers {
  std::unordered_map<std::uint64_t, std::uint64_t> built;  // The key is a site's counter.
  std::uint64_t compared = 0;
};

// `values_every`: results that should be the same on all ranks are compared after this many; 0: never.
void EnableCallChecks(std::uint64_t values_every);
bool ChecksCalls();
// Sets the place of the operations that this thread builds next. What mx.compile traces is not `numbered`,
// because the number of traces depends on a rank's shapes.
void SetCallSite(std::shared_ptr<const CallSite> site, bool numbered);
// Where ChecksCalls(). `from`: the call of which it is a gradient or another transformation.
std::shared_ptr<CheckedCall> NextCall(CallNumbers& numbers, const std::string& group,
                                      const std::shared_ptr<CheckedCall>& from);
// The message with the program's lines in place of words.
std::string ExplainChecks(std::string message, std::uint32_t own_rank);
// The same in every build of every rank: FNV-1a of Fowler, Noll and Vo, over eight bytes at a time.
std::uint64_t HashOf(std::string_view bytes);
// Returns whether the results of the group's next operation are to be compared; the same on all ranks.
bool ComparesValuesNow(CallNumbers& numbers);

}  // namespace mlxcomm::graph
