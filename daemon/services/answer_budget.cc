#include "daemon/services/answer_budget.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

namespace mlxcomm::services {

Failure AnswerBudget::Take(uid_t uid, std::uint64_t bytes) {
  if (bytes == 0) return {};
  charge_(uid, static_cast<double>(bytes) / kBytesOfWork);
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(uid);
  if (held == held_.end()) {
    held_[uid] = bytes;
    return {};
  }
  if (bytes > kBytesPerUserMax || held->second > kBytesPerUserMax - bytes) {
    spdlog::warn("user {}: refused an answer of {} bytes; its processes have not read {} bytes",
                 uid, bytes, held->second);
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("processes of user ", uid, " have not read ", held->second,
                         " bytes of their answers, this one has ", bytes, ", and the limit is ",
                         kBytesPerUserMax, ": end processes that do not read, or try again")};
  }
  held->second += bytes;
  return {};
}

void AnswerBudget::GiveBack(uid_t uid, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(uid);
  held->second -= bytes;
  if (held->second == 0) held_.erase(held);
}

}  // namespace mlxcomm::services
