// What the gRPC services ask of the daemon's engine. The services translate and
// call; everything happens on the engine thread.
//
// Owner: Engine implements it, Daemon joins the two. Thread: calls from those of
// whoever asks; answers from the engine thread. Memory: a bounded number of calls is
// under way; beyond it Attach is refused at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/intake/intake.h"
#include "mlxcomm/v1/control.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::control {

// One call that is answered exactly once; destroyed without an answer it says
// UNAVAILABLE.
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
using StatusAnswer = Answer<v1::StatusReply>;
using TopologyAnswer = Answer<v1::TopologyReply>;
using CostsAnswer = Answer<v1::LinkCosts>;
using PingAnswer = Answer<v1::PingReply>;
using DoctorAnswer = Answer<v1::DoctorReply>;

// What metrics tell of the engine: its own part of a status, and what that has not.
struct EngineMetrics {
  v1::NodeStatus node;
  std::map<std::string, std::uint64_t> jobs;  // By state.
  std::uint64_t wakeups = 0;
  std::uint64_t violations = 0;
};
using MetricsAnswer = Answer<EngineMetrics>;

class ControlPort {
 public:
  virtual ~ControlPort() = default;
  // `call` is another number for each Attach, so that the end of one is never taken for
  // that of the next on the same session.
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
  // What `viewer` may see.
  virtual void Status(const intake::User& viewer, std::unique_ptr<StatusAnswer> answer) = 0;
  virtual void Topology(std::unique_ptr<TopologyAnswer> answer) = 0;
  virtual void Ping(const v1::PingRequest& request, std::unique_ptr<PingAnswer> answer) = 0;
  virtual void Doctor(std::unique_ptr<DoctorAnswer> answer) = 0;
  // What this node's links cost, as jobs that form now are told.
  virtual void MeasureLinks(std::unique_ptr<CostsAnswer> answer) = 0;
  virtual void Metrics(std::unique_ptr<MetricsAnswer> answer) = 0;
};

}  // namespace mlxcomm::control
