// One call with one request and one reply. Its Answer may outlive the caller's interest but not the
// call, which waits for it.
//
// Owner: itself (call_queue.h). Thread: the queue's; the Answer is given from any. Memory: one
// request; a reply goes from the Answer to gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <sys/types.h>

#include <grpcpp/grpcpp.h>

#include "daemon/node/answer.h"
#include "daemon/services/answer_budget.h"
#include "daemon/services/call_queue.h"
#include "daemon/services/refusal.h"

namespace mlxcomm::services {

template <typename Request, typename Reply>
class UnaryCall : public AsyncCall {
 public:
  const grpc::ServerContext& context() const { return context_; }
  const Request& request() const { return request_; }

  // Called on the queue's thread, when the caller no longer waits for the answer.
  void set_on_cancelled(std::function<void()> on_cancelled) {
    on_cancelled_ = std::move(on_cancelled);
  }
  // Called on the queue's thread, at the end of the call: gRPC has passed the answer on, or the caller has
  // gone. A caller that keeps its window closed puts it off.
  void set_on_over(std::function<void()> on_over) { on_over_ = std::move(on_over); }
  // From here on what the answer holds counts as that user's, until the end of the call, which the budget
  // outlives.
  void set_budget(AnswerBudget& budget, uid_t uid) {
    budget_ = &budget;
    uid_ = uid;
    budget.OnCall(uid);
  }
  // Either of the two, once.
  std::unique_ptr<node::Answer<Reply>> MakeAnswer() { return std::make_unique<CallAnswer>(this); }
  void Refuse(const grpc::Status& status) { writer_.FinishWithError(status, &answered_); }

 protected:
  using AsyncCall::AsyncCall;
  ~UnaryCall() override {
    if (on_over_) on_over_();
    if (budget_ != nullptr) budget_->GiveBack(uid_, held_bytes_);
  }
  void OnCancelled() override {
    if (on_cancelled_) on_cancelled_();
  }

  Request request_;
  grpc::ServerAsyncResponseWriter<Reply> writer_{&context_};

 private:
  class CallAnswer final : public node::Answer<Reply> {
   public:
    explicit CallAnswer(UnaryCall* call) : call_(call) {}
    ~CallAnswer() override {
      if (call_ != nullptr) {
        Fail({FailureCode::kDaemonStopping, kNoRank, "the daemon is stopping"});
      }
    }
    void Succeed(const Reply& reply) override {
      UnaryCall* const call = std::exchange(call_, nullptr);
      if (const Failure refused = call->Hold(reply); !refused.ok()) {
        return call->Refuse(services::Refuse(refused));
      }
      call->writer_.Finish(reply, grpc::Status::OK, &call->answered_);
    }
    void Fail(const Failure& failure) override {
      std::exchange(call_, nullptr)->Refuse(services::Refuse(failure));
    }

   private:
    UnaryCall* call_;
  };

  Failure Hold(const Reply& reply) {
    if (budget_ == nullptr) return {};
    const std::uint64_t bytes = reply.ByteSizeLong();
    Failure refused = budget_->Take(uid_, bytes);
    if (refused.ok()) held_bytes_ = bytes;
    return refused;
  }

  std::function<void()> on_cancelled_;
  std::function<void()> on_over_;
  AnswerBudget* budget_ = nullptr;
  uid_t uid_ = 0;
  std::uint64_t held_bytes_ = 0;
};

// How the generated service asks gRPC for a call of a method.
template <typename Service, typename Request, typename Reply>
using AskMethod = void (Service::*)(grpc::ServerContext*, Request*,
                                    grpc::ServerAsyncResponseWriter<Reply>*, grpc::CompletionQueue*,
                                    grpc::ServerCompletionQueue*, void* tag);

template <typename Service, typename Server, typename Request, typename Reply>
struct UnaryMethod {
  Service& service;
  AskMethod<Service, Request, Reply> ask;
  Server& server;
  void (Server::*serve)(UnaryCall<Request, Reply>&);
};

template <typename Service, typename Server, typename Request, typename Reply>
class MethodCall final : public UnaryCall<Request, Reply> {
 public:
  using Method = UnaryMethod<Service, Server, Request, Reply>;
  MethodCall(CallQueue& queue, const Method& method)
      : UnaryCall<Request, Reply>(queue), method_(method) {
    (method_.service.*method_.ask)(&this->context_, &this->request_, &this->writer_, queue.get(),
                                   queue.get(), &this->come_);
  }

 private:
  void AskForNext() override { new MethodCall(this->queue_, method_); }
  void OnCome() override { (method_.server.*method_.serve)(*this); }

  const Method method_;
};

// From here on `serve` gets the method's calls. `service` and `server` outlive them.
template <typename Service, typename Server, typename Request, typename Reply>
void ServeUnary(CallQueue& queue, std::type_identity_t<Service>& service,
                AskMethod<Service, Request, Reply> ask, Server& server,
                void (Server::*serve)(UnaryCall<Request, Reply>&)) {
  new MethodCall<Service, Server, Request, Reply>(queue, {service, ask, server, serve});
}

}  // namespace mlxcomm::services
