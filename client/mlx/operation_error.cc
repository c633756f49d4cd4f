#include "client/mlx/operation_error.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <utility>

namespace mlxcomm::graph {
namespace {

// The failures thrown last, found by their texts.
class RecentErrors {
 public:
  void Remember(const std::string& text, const FailureDetails& details) {
    const std::lock_guard lock(mutex_);
    entries_[next_++ % entries_.size()] = {text, details};
  }
  std::optional<FailureDetails> Find(std::string_view text) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, details] : entries_) {
      if (known == text && !known.empty()) return details;
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::array<std::pair<std::string, FailureDetails>, 64> entries_;
  std::size_t next_ = 0;
};

RecentErrors& Recent() {
  static RecentErrors errors;
  return errors;
}

}  // namespace

FailureDetails Describe(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group) {
  FailureDetails details;
  details.code = code;
  if (group != nullptr) details.group = mlxcomm_group_name(group);
  if (code == MLXCOMM_OK) return details;
  details.rank = error.rank;
  details.message = error.message;
  if (group == nullptr || error.rank < 0) return details;
  const auto rank = static_cast<std::uint32_t>(error.rank);
  if (const char* const node = mlxcomm_member_node(group, rank); node != nullptr) {
    details.node = node;
  }
  details.pid = mlxcomm_member_pid(group, rank);
  return details;
}

OperationError::OperationError(FailureDetails details)
    : std::runtime_error(std::string(mlxcomm_code_name(details.code)) + ": " + details.message),
      details_(std::move(details)) {
  Recent().Remember(what(), details_);
}

std::optional<FailureDetails> FindRecentFailure(std::string_view text) {
  return Recent().Find(text);
}

void CheckOperation(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group) {
  if (code != MLXCOMM_OK) throw OperationError(Describe(code, error, group));
}

}  // namespace mlxcomm::graph
