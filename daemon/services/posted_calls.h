// Calls on their way to the node: gRPC's threads and the metrics' post them, the loop's carries them out.
//
//   any thread ─Ask: too many? refused─▶ posted to the io_context ─▶ the loop's thread: body(node, answer)
//
// Owner: Daemon. Thread: Ask and Tell from any; bodies, and the rest, on the loop's. Memory: at most
// kCallsMax calls are on their way; more are refused at once.
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

  // `poll`: Intake's. `wakeups`: how often the loop has slept, for metrics. All outlive it.
  PostedCalls(asio::io_context& io, node::Node& node, std::function<std::size_t()> poll,
              const std::uint64_t& wakeups)
      : io_(io), node_(node), poll_(std::move(poll)), wakeups_(wakeups) {}

  // `body` gets the node and the answer. If it is destroyed unrun, as at the daemon's end, so is its answer,
  // which reports the stop.
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
  // Without an answer, and never refused: something about a call that was.
  template <typename Body>
  void Report(Body body) {
    asio::post(io_, [this, body = std::move(body)]() mutable { body(node_); });
  }

  // The node gets what lies in the queues, of which each holds at most this many.
  void TakeSubmissions() {
    for (std::uint32_t i = 0; i < queue::kSubmissionSlots && poll_() > 0; ++i) node_.CarryOut();
  }
  std::uint64_t wakeups() const { return wakeups_; }

 private:
  asio::io_context& io_;
  node::Node& node_;
  const std::function<std::size_t()> poll_;
  const std::uint64_t& wakeups_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace mlxcomm::services
