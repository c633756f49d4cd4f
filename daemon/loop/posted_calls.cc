#include "daemon/loop/posted_calls.h"

namespace mlxcomm {

using control::AttachAnswer;
using control::AwaitedAnswer;
using control::CancelAnswer;
using control::CostsAnswer;
using control::DetachAnswer;
using control::DoctorAnswer;
using control::GroupAnswer;
using control::MetricsAnswer;
using control::PingAnswer;
using control::ReleaseAnswer;
using control::StatusAnswer;
using intake::SessionId;

void PostedCalls::Attach(const intake::SessionIdentity& who, std::uint64_t call,
                         const v1::AttachRequest& request, std::unique_ptr<AttachAnswer> answer) {
  Ask(std::move(answer),
      [this, session = who.session, call, request](std::unique_ptr<AttachAnswer> held) {
        node_.Attach(session, call, request, std::move(held));
      });
}

void PostedCalls::CancelAttach(SessionId session, std::uint64_t call) {
  asio::post(io_, [this, session, call] { node_.CancelAttach(session, call); });
}

void PostedCalls::Detach(SessionId session, const v1::DetachRequest& request,
                         std::unique_ptr<DetachAnswer> answer) {
  Ask(std::move(answer), [this, session, request](std::unique_ptr<DetachAnswer> held) {
    node_.Detach(session, request, *held);
  });
}

void PostedCalls::Split(SessionId session, const v1::SplitRequest& request,
                        std::unique_ptr<GroupAnswer> answer) {
  Ask(std::move(answer), [this, session, request](std::unique_ptr<GroupAnswer> held) {
    node_.Split(session, request, *held);
  });
}

void PostedCalls::Release(SessionId session, std::uint64_t group,
                          std::unique_ptr<ReleaseAnswer> answer) {
  Ask(std::move(answer), [this, session, group](std::unique_ptr<ReleaseAnswer> held) {
    node_.Release(session, group, *held);
  });
}

void PostedCalls::Shrink(SessionId session, std::uint64_t call, const v1::ShrinkRequest& request,
                         std::unique_ptr<GroupAnswer> answer) {
  Ask(std::move(answer), [this, session, call, request](std::unique_ptr<GroupAnswer> held) {
    node_.Shrink(session, call, request, std::move(held));
  });
}

void PostedCalls::CancelShrink(SessionId session, std::uint64_t call) {
  asio::post(io_, [this, session, call] { node_.CancelShrink(session, call); });
}

void PostedCalls::Cancel(SessionId session, const v1::CancelRequest& request,
                         std::unique_ptr<CancelAnswer> answer) {
  Ask(std::move(answer), [this, session, request](std::unique_ptr<CancelAnswer> held) {
    // Calls that it gives up may still be in its queue, which holds at most this many.
    for (std::uint32_t i = 0; i < queue::kSubmissionSlots && intake_.Poll() > 0; ++i)
      node_.CarryOut();
    node_.Cancel(session, request, *held);
  });
}

void PostedCalls::Awaited(SessionId session, const v1::AwaitedRequest& request,
                          std::unique_ptr<AwaitedAnswer> answer) {
  Ask(std::move(answer), [this, session, request](std::unique_ptr<AwaitedAnswer> held) {
    node_.Awaited(session, request, *held);
  });
}

void PostedCalls::Status(std::unique_ptr<StatusAnswer> answer) {
  Ask(std::move(answer),
      [this](std::unique_ptr<StatusAnswer> held) { node_.Status(std::move(held)); });
}

void PostedCalls::MeasureLinks(std::unique_ptr<CostsAnswer> answer) {
  Ask(std::move(answer),
      [this](std::unique_ptr<CostsAnswer> held) { held->Succeed(node_.MeasureLinks()); });
}

void PostedCalls::Metrics(std::unique_ptr<MetricsAnswer> answer) {
  Ask(std::move(answer),
      [this](std::unique_ptr<MetricsAnswer> held) { held->Succeed({node_.Metrics(), wakeups_}); });
}

void PostedCalls::Ping(const v1::PingRequest& request, std::unique_ptr<PingAnswer> answer) {
  Ask(std::move(answer),
      [this, request](std::unique_ptr<PingAnswer> held) { node_.Ping(request, std::move(held)); });
}

void PostedCalls::Doctor(std::unique_ptr<DoctorAnswer> answer) {
  Ask(std::move(answer),
      [this](std::unique_ptr<DoctorAnswer> held) { node_.Doctor(std::move(held)); });
}

}  // namespace mlxcomm
