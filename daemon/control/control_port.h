// What the gRPC services need from the node. The services translate and call; everything happens on
// the loop's thread.
//
// Owner: PostedCalls implements it (loop/posted_calls.h), Daemon connects the two. Thread: calls
// from the services' threads; answers from the loop's. Memory: a bounded number of calls is under
// way; more are refused at once.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/intake/intake.h"
#include "daemon/node/answer.h"
#include "daemon/node/node.h"
#include "daemon/node/status_parts.h"
#include "mlxcomm/v1/control.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::control {

template <typename Reply>
using Answer = node::Answer<Reply>;
using node::AttachAnswer;
using node::AwaitedAnswer;
using node::CancelAnswer;
using node::CostsAnswer;
using node::DetachAnswer;
using node::DoctorAnswer;
using node::GroupAnswer;
using node::PingAnswer;
using node::ReleaseAnswer;
using node::StatusAnswer;

struct EngineMetrics : node::NodeMetrics {
  std::uint64_t wakeups = 0;
};
using MetricsAnswer = Answer<EngineMetrics>;

class ControlPort {
 public:
  virtual ~ControlPort() = default;
  // `call` differs for each Attach, so that the end of one is never mistaken for that of the next
  // on the same session.
  virtual void Attach(const intake::SessionIdentity& who, std::uint64_t call,
                      const v1::AttachRequest& request, std::unique_ptr<AttachAnswer> answer) = 0;
  // The caller of that Attach has gone or given up.
  virtual void CancelAttach(intake::SessionId session, std::uint64_t call) = 0;
  virtual void Awaited(intake::SessionId session, const v1::AwaitedRequest& request,
                       std::unique_ptr<AwaitedAnswer> answer) = 0;
  virtual void Detach(intake::SessionId session, const v1::DetachRequest& request,
                      std::unique_ptr<DetachAnswer> answer) = 0;
  virtual void Split(intake::SessionId session, const v1::SplitRequest& request,
                     std::unique_ptr<GroupAnswer> answer) = 0;
  virtual void Release(intake::SessionId session, std::uint64_t group,
                       std::unique_ptr<ReleaseAnswer> answer) = 0;
  // `call` as for Attach.
  virtual void Shrink(intake::SessionId session, std::uint64_t call,
                      const v1::ShrinkRequest& request, std::unique_ptr<GroupAnswer> answer) = 0;
  virtual void CancelShrink(intake::SessionId session, std::uint64_t call) = 0;
  virtual void Cancel(intake::SessionId session, const v1::CancelRequest& request,
                      std::unique_ptr<CancelAnswer> answer) = 0;
  // The parts of a status, of all nodes and of all users.
  virtual void Status(std::unique_ptr<StatusAnswer> answer) = 0;
  virtual void Ping(const v1::PingRequest& request, std::unique_ptr<PingAnswer> answer) = 0;
  virtual void Doctor(std::unique_ptr<DoctorAnswer> answer) = 0;
  // The costs of this node's links, as reported to jobs that form now.
  virtual void MeasureLinks(std::unique_ptr<CostsAnswer> answer) = 0;
  virtual void Metrics(std::unique_ptr<MetricsAnswer> answer) = 0;
};

}  // namespace mlxcomm::control
