// A failed operation as an exception with all details, from which a language makes its own
// exception.
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
  std::string node = {};  // Empty if not known.
  std::uint64_t pid = 0;  // 0 if not known.
  std::string group = {};
};

// `group` may be null: the failure was before joining.
FailureDetails Describe(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group);

class OperationError : public std::runtime_error {
 public:
  explicit OperationError(FailureDetails details);
  const FailureDetails& details() const noexcept { return details_; }

 private:
  FailureDetails details_;
};

// Finds the latest failure whose text is part of `text`: MLX's evaluation rethrows it as a
// std::runtime_error with only the text.
std::optional<FailureDetails> FindRecentFailure(std::string_view text);

// "RANK_LOST: rank 1 ..."
std::string TextOf(const FailureDetails& details);

// From now on doubles each % in what(), because mlx-c uses it as a printf format, and another
// process may have chosen parts of the text.
void DoublePercentSigns();

// Throws OperationError unless the code is MLXCOMM_OK.
void CheckOperation(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group);

}  // namespace mlxcomm::graph
