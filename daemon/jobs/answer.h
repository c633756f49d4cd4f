// The answer to one control call: given exactly once. A dropped answer reports that the daemon is
// stopping (services/unary_call.h), so drop one only then.
//
// Owner: the part of the node that owes the answer, or the thread that works it out
// (services/answer_thread.h). Thread: its owner's. Memory: one object for each call.
#pragma once

#include "mlxcomm/v1/control.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::jobs {

template <typename Reply>
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void Succeed(const Reply& reply) = 0;
  virtual void Fail(const Failure& failure) = 0;
};
using AttachAnswer = Answer<v1::AttachReply>;
using DetachAnswer = Answer<v1::DetachReply>;
using AwaitedAnswer = Answer<v1::AwaitedReply>;
using GroupAnswer = Answer<v1::GroupReply>;
using ReleaseAnswer = Answer<v1::ReleaseReply>;
using CancelAnswer = Answer<v1::CancelReply>;
using EndJobAnswer = Answer<v1::EndJobReply>;

}  // namespace mlxcomm::jobs
