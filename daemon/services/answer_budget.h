// Limits the bytes of answers that gRPC holds for a user: a process that opens no window makes gRPC
// keep an answer until the connection ends.
//
//   answer ──fits, or is the user's only one──▶ held ──sent, or its call is over──▶ returned
//     └─ exceeds the limit ─▶ refused
//
// Each call and each byte of its answer is also work, which slows the user's next requests.
//
// Owner: DiagnosticsCalls. Thread: any, with a lock. Memory: a number for each user that holds
// something.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include <sys/types.h>

#include "proto/types/failure.h"

namespace mlxcomm::services {

class AnswerBudget {
 public:
  static constexpr std::uint64_t kBytesPerUserMax = 4 * 1024 * 1024;
  // UserMeter's unit: a user has about 400 calls or 12 MB of answers a second.
  static constexpr double kWorkOfCall = 128;
  static constexpr double kBytesOfWork = 256;
  using Charge = std::function<void(uid_t uid, double work)>;

  explicit AnswerBudget(Charge charge) : charge_(std::move(charge)) {}

  void OnCall(uid_t uid) { charge_(uid, kWorkOfCall); }
  // RESOURCE_EXHAUSTED: it exceeds the limit together with the user's other answers.
  Failure Take(uid_t uid, std::uint64_t bytes);
  void GiveBack(uid_t uid, std::uint64_t bytes);

 private:
  const Charge charge_;
  std::mutex mutex_;
  std::map<uid_t, std::uint64_t> held_;  // Bytes; none is 0.
};

}  // namespace mlxcomm::services
