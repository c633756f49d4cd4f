#include "client/mlx/operation_error.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>

#include "client/mlx/call_check.h"

namespace mlxcomm::graph {
namespace {

// Remembers the last failures, by text.
class RecentErrors {
 public:
  void Remember(const FailureDetails& details) {
    const std::lock_guard lock(mutex_);
    entries_[next_++ % entries_.size()] = {TextOf(details), details};
  }
  std::optional<FailureDetails> Find(std::string_view text) {
    const std::lock_guard lock(mutex_);
    for (std::size_t back = 1; back <= entries_.size(); ++back) {
      const auto& [known, details] = entries_[(next_ + entries_.size() - back) % entries_.size()];
      if (!known.empty() && text.find(known) != std::string_view::npos) return details;
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::array<std::pair<std::string, FailureDetails>, 64> entries_;
  std::size_t next_ = 0;
};

// Never destroyed: MLX's threads may throw until the process ends.
RecentErrors& Recent() {
  static RecentErrors* const errors = new RecentErrors;
  return *errors;
}

std::atomic<bool> g_doubles_percent_signs{false};

std::string Thrown(std::string text) {
  if (!g_doubles_percent_signs) return text;
  for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 2)) {
    text.insert(at, 1, '%');
  }
  return text;
}

}  // namespace

FailureDetails Describe(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group) {
  FailureDetails details;
  details.code = code;
  if (group != nullptr) details.group = mlxcomm_group_name(group);
  if (code == MLXCOMM_OK) return details;
  details.rank = error.rank;
  details.message = error.message;
  if (group != nullptr && ChecksCalls())
    details.message = ExplainChecks(std::move(details.message), mlxcomm_rank(group));
  if (group == nullptr || error.rank < 0) return details;
  const auto rank = static_cast<std::uint32_t>(error.rank);
  if (const char* const node = mlxcomm_member_node(group, rank); node != nullptr) {
    details.node = node;
  }
  details.pid = mlxcomm_member_pid(group, rank);
  return details;
}

OperationError::OperationError(FailureDetails details)
    : std::runtime_error(Thrown(TextOf(details))), details_(std::move(details)) {
  Recent().Remember(details_);
}

std::optional<FailureDetails> FindRecentFailure(std::string_view text) {
  return Recent().Find(text);
}

std::string TextOf(const FailureDetails& details) {
  return std::string(mlxcomm_code_name(details.code)) + ": " + details.message;
}

void DoublePercentSigns() { g_doubles_percent_signs = true; }

void CheckOperation(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group) {
  if (code != MLXCOMM_OK) throw OperationError(Describe(code, error, group));
}

}  // namespace mlxcomm::graph
