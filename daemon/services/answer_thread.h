// A thread for answers that take a long time to compute, one after the other: they hold up neither
// other calls nor the loop, and use one core at most. It exists from the first such answer on.
//
// Owner: DiagnosticsCalls. Thread: Start from any; the work on its own. Memory: a closure for each
// open answer.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include <asio/post.hpp>
#include <asio/thread_pool.hpp>

#include "daemon/node/answer.h"

namespace mlxcomm::services {

class AnswerThread {
 public:
  template <typename Reply, typename Work>
  void Start(std::unique_ptr<node::Answer<Reply>> answer, Work work) {
    try {
      std::call_once(started_, [this] { pool_.emplace(1); });
    } catch (const std::system_error&) {  // The next call tries again.
      return answer->Fail({FailureCode::kResourceExhausted, kNoRank,
                           "the daemon cannot start a thread: try again"});
    }
    asio::post(*pool_, [answer = std::move(answer), work = std::move(work)] { work(*answer); });
  }

 private:
  std::once_flag started_;
  std::optional<asio::thread_pool> pool_;  // When it ends, it drops work that has not begun.
};

}  // namespace mlxcomm::services
