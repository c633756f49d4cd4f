// The answers to calls that the node itself serves; jobs/answer.h explains them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "daemon/jobs/answer.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::node {

using jobs::Answer;
using PingAnswer = Answer<v1::PingReply>;
using DoctorAnswer = Answer<v1::DoctorReply>;

// Answers callers that made the same call.
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

}  // namespace mlxcomm::node
