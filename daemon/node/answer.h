// The answer to one control call: given exactly once. One that is dropped unused says that the daemon is
// stopping (control/unary_call.h), so nothing else drops one.
//
// Owner: the part of the node that owes the answer, or the thread that works it out
// (control/answer_thread.h). Thread: its owner's. Memory: one object for each call.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "mlxcomm/v1/control.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::node {

template <typename Reply>
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void Succeed(const Reply& reply) = 0;
  virtual void Fail(const Failure& failure) = 0;
};
// Of callers that have asked the same.
template <typename Reply>
class AnswerToAll final : public Answer<Reply> {
 public:
  explicit AnswerToAll(std::vector<std::unique_ptr<Answer<Reply>>> answers)
      : answers_(std::move(answers)) {}
  void Succeed(const Reply& reply) override {
    for (const auto& answer : answers_) answer->Succeed(reply);
  }
  void Fail(const Failure& failure) override {
    for (const auto& answer : answers_) answer->Fail(failure);
  }

 private:
  std::vector<std::unique_ptr<Answer<Reply>>> answers_;
};
using AttachAnswer = Answer<v1::AttachReply>;
using DetachAnswer = Answer<v1::DetachReply>;
using AwaitedAnswer = Answer<v1::AwaitedReply>;
using GroupAnswer = Answer<v1::GroupReply>;
using ReleaseAnswer = Answer<v1::ReleaseReply>;
using CancelAnswer = Answer<v1::CancelReply>;
using PingAnswer = Answer<v1::PingReply>;
using EndJobAnswer = Answer<v1::EndJobReply>;
using DoctorAnswer = Answer<v1::DoctorReply>;

}  // namespace mlxcomm::node
