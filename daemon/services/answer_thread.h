// Answers that take long to work out: one at a time, each on a thread of its own, so that asking
// for them costs one core at most and holds up no other call.
//
// Owner: the server of the calls. Thread: Start always on the same one; the work on its own, which
// exists only meanwhile. Memory: one reply.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/node/answer.h"
#include "proto/types/failure.h"

namespace mlxcomm::services {

template <typename Reply>
class AnswerThread {
 public:
  using Work = std::function<Failure(Reply&)>;

  ~AnswerThread() {
    if (thread_.joinable()) thread_.join();
  }

  // Refused with `busy` while another answer is being worked out.
  void Start(std::unique_ptr<node::Answer<Reply>> answer, Work work, const char* busy) {
    if (busy_.exchange(true)) {
      return answer->Fail({FailureCode::kResourceExhausted, kNoRank, busy});
    }
    if (thread_.joinable()) thread_.join();  // It has answered, or is about to.
    answer_ = std::move(answer);
    work_ = std::move(work);
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      busy_ = false;
      std::exchange(answer_, nullptr)
          ->Fail({FailureCode::kResourceExhausted, kNoRank,
                  "the daemon may start no thread: ask again"});
    }
  }

 private:
  void Run() {
    Reply reply;
    const Failure failure = work_(reply);
    const std::unique_ptr<node::Answer<Reply>> answer = std::move(answer_);
    busy_ = false;  // The caller that has its answer may ask again at once.
    failure.ok() ? answer->Succeed(reply) : answer->Fail(failure);
  }

  std::atomic<bool> busy_{false};
  // Belongs to the thread that has set busy_.
  std::unique_ptr<node::Answer<Reply>> answer_;
  Work work_;
  std::thread thread_;
};

}  // namespace mlxcomm::services
