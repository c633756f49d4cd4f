// Calls on their way to the node: threads of gRPC and of the metrics post them, and the loop runs
// them.
//
//   any thread ─Ask: too many? refused─▶ posted to the io_context
//     ─▶ the loop's thread: body(node, answer)
//
// Owner: Daemon. Thread: Ask and Report from any; bodies and the rest on the loop's. Memory: at
// most kCallsMax posted calls; more are refused at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "daemon/node/node.h"
#include "proto/queue/layout.h"

namespace mlxcomm::services {

class PostedCalls {
 public:
  static constexpr std::uint32_t kCallsMax = 1024;

  // `poll` is Intake's. All outlive it.
  PostedCalls(asio::io_context& io, node::Node& node, std::function<std::size_t()> poll)
      : io_(io), node_(node), poll_(std::move(poll)) {}

  // `body` gets the node and the answer. If the daemon ends before it runs, both are destroyed, and
  // the answer reports the stop.
  template <typename Answer, typename Body>
  void Ask(std::unique_ptr<Answer> answer, Body body) {
    if (calls_.fetch_add(1) >= kCallsMax) {
      calls_.fetch_sub(1);
      return answer->Fail({FailureCode::kResourceExhausted, kNoRank, "too many calls at once"});
    }
    asio::post(io_, [this, body = std::move(body), answer = std::move(answer)]() mutable {
      calls_.fetch_sub(1);
      body(node_, std::move(answer));
    });
  }
  // Has no answer and is never refused: it follows a call that was accepted.
  template <typename Body>
  void Report(Body body) {
    asio::post(io_, [this, body = std::move(body)]() mutable { body(node_); });
  }

  // Passes all queued submissions to the node; a queue holds at most kSubmissionSlots.
  void TakeSubmissions() {
    for (std::uint32_t i = 0; i < queue::kSubmissionSlots && poll_() > 0; ++i) node_.CarryOut();
  }

 private:
  asio::io_context& io_;
  node::Node& node_;
  const std::function<std::size_t()> poll_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace mlxcomm::services
