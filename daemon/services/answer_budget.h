// How much the answers may hold that a user's processes leave in gRPC: a process that opens no window makes
// gRPC keep an answer until its connection ends, and a connection has several calls.
//
//   answer ──fits, or is the user's only one──▶ held ──it has gone, or its call is over──▶ given back
//     └─ would be too much ─▶ refused
//
// Only refusals cost an honest process something, and a process that takes its answers holds them for
// milliseconds. Each call has a price, and each byte of its answer: they slow its user's next requests.
//
// Owner: DiagnosticsCalls. Thread: any, with a lock. Memory: a number for each user that holds something.
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
  // In UserMeter's work: some 400 calls a second of a user, or 12 MB of answers.
  static constexpr double kWorkOfCall = 128;
  static constexpr double kBytesOfWork = 256;
  using Charge = std::function<void(uid_t uid, double work)>;

  explicit AnswerBudget(Charge charge) : charge_(std::move(charge)) {}

  void OnCall(uid_t uid) { charge_(uid, kWorkOfCall); }
  // RESOURCE_EXHAUSTED: with the others of this user it would be too much.
  Failure Take(uid_t uid, std::uint64_t bytes);
  void GiveBack(uid_t uid, std::uint64_t bytes);

 private:
  const Charge charge_;
  std::mutex mutex_;
  std::map<uid_t, std::uint64_t> held_;  // Bytes; none is 0.
};

}  // namespace mlxcomm::services
