// A failed operation as an exception that keeps everything known about the failure, so that a
// language can raise its own class from an evaluation as well, with code, rank, node, process and
// group.
//
// Owner: the code that catches it. Thread: any. Memory: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "client/lib/mlxcomm.h"

namespace mlxcomm::graph {

struct FailureDetails {
  mlxcomm_code code = MLXCOMM_OK;
  std::int32_t rank = -1;
  std::string message = {};
  std::string node = {};  // Empty: not known.
  std::uint64_t pid = 0;  // 0: not known.
  std::string group = {};
};

// `group` may be NULL: the failure came before there was one.
FailureDetails Describe(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group);

class OperationError : public std::runtime_error {
 public:
  explicit OperationError(FailureDetails details);
  const FailureDetails& details() const noexcept { return details_; }

 private:
  FailureDetails details_;
};

// An evaluation rethrows a mere std::runtime_error with the same text: MLX's stream keeps no more
// of it. So the last few failures are remembered, and found by their texts.
std::optional<FailureDetails> FindRecentFailure(std::string_view text);
// The latest whose text is a part of this one: others add words before and behind it.
std::optional<FailureDetails> FindRecentFailureWithin(std::string_view text);

// "RANK_LOST: rank 1 ..."
std::string TextOf(const FailureDetails& details);

// mlx-c uses an exception's what() as a format of printf, and a failure's text may contain what
// another process wrote. From here on each % in what() is doubled, so that the printed text is
// right.
void DoublePercentSigns();

// Throws OperationError unless the code is MLXCOMM_OK.
void CheckOperation(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group);

}  // namespace mlxcomm::graph
