// Control calls on their way to the node: gRPC's threads post them, the loop's thread carries them out.
//
//   any thread ─Ask: too many? refused─▶ posted to the io_context ─▶ the loop's thread: Node ─▶ the answer
//
// Owner: Daemon. Thread: calls from any; bodies on the loop's. Memory: at most kCallsMax are on their way.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "daemon/control/control_port.h"
#include "daemon/intake/intake.h"
#include "daemon/node/node.h"

namespace mlxcomm {

class PostedCalls final : public control::ControlPort {
 public:
  static constexpr std::uint32_t kCallsMax = 1024;

  // All outlive it. `wakeups`: how often the loop has slept, for metrics.
  PostedCalls(asio::io_context& io, node::Node& node, intake::Intake& intake,
              const std::uint64_t& wakeups)
      : io_(io), node_(node), intake_(intake), wakeups_(wakeups) {}

  void Attach(const intake::SessionIdentity& who, std::uint64_t call,
              const v1::AttachRequest& request,
              std::unique_ptr<control::AttachAnswer> answer) override;
  void CancelAttach(intake::SessionId session, std::uint64_t call) override;
  void Awaited(intake::SessionId session, const v1::AwaitedRequest& request,
               std::unique_ptr<control::AwaitedAnswer> answer) override;
  void Detach(intake::SessionId session, const v1::DetachRequest& request,
              std::unique_ptr<control::DetachAnswer> answer) override;
  void Split(intake::SessionId session, const v1::SplitRequest& request,
             std::unique_ptr<control::GroupAnswer> answer) override;
  void Release(intake::SessionId session, std::uint64_t group,
               std::unique_ptr<control::ReleaseAnswer> answer) override;
  void Shrink(intake::SessionId session, std::uint64_t call, const v1::ShrinkRequest& request,
              std::unique_ptr<control::GroupAnswer> answer) override;
  void CancelShrink(intake::SessionId session, std::uint64_t call) override;
  void Cancel(intake::SessionId session, const v1::CancelRequest& request,
              std::unique_ptr<control::CancelAnswer> answer) override;
  void Status(std::unique_ptr<control::StatusAnswer> answer) override;
  void MeasureLinks(std::unique_ptr<control::CostsAnswer> answer) override;
  void Metrics(std::unique_ptr<control::MetricsAnswer> answer) override;
  void Ping(const v1::PingRequest& request, std::unique_ptr<control::PingAnswer> answer) override;
  void Doctor(std::unique_ptr<control::DoctorAnswer> answer) override;

 private:
  template <typename Answer, typename Body>
  void Ask(std::unique_ptr<Answer> answer, Body body) {
    if (calls_.fetch_add(1) >= kCallsMax) {
      calls_.fetch_sub(1);
      return answer->Fail({FailureCode::kResourceExhausted, kNoRank, "too many calls at once"});
    }
    // A call that is destroyed unrun, as at the end, destroys its answer, which reports the stop.
    asio::post(io_, [this, body = std::move(body), answer = std::move(answer)]() mutable {
      calls_.fetch_sub(1);
      body(std::move(answer));
    });
  }

  asio::io_context& io_;
  node::Node& node_;
  intake::Intake& intake_;
  const std::uint64_t& wakeups_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace mlxcomm
