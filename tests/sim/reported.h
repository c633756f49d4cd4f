// The answer to a control call; the caller gets none if the daemon ends before it answers.
//
// Owner: the daemon, until it answers. Thread: one. Memory: two functions.
#pragma once

#include <functional>
#include <utility>

#include "daemon/node/answer.h"

namespace mlxcomm::sim {

template <typename Reply>
class Reported final : public node::Answer<Reply> {
 public:
  using OnReply = std::function<void(const Reply&)>;
  using OnFailure = std::function<void(const Failure&)>;
  Reported(OnReply on_reply, OnFailure on_failure)
      : on_reply_(std::move(on_reply)), on_failure_(std::move(on_failure)) {}
  void Succeed(const Reply& reply) override { on_reply_(reply); }
  void Fail(const Failure& failure) override { on_failure_(failure); }

 private:
  OnReply on_reply_;
  OnFailure on_failure_;
};

}  // namespace mlxcomm::sim
