// A call with one request and one reply. It waits for its Answer even if the caller has gone.
//
// Owner: itself (call_queue.h). Thread: the queue's; the Answer on any. Memory: one request; the
// Answer passes the reply to gRPC.
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
class UnaryCall final : public AsyncCall {
 public:
  // Holds what all calls of a method share.
  struct Method {
    std::function<void(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Reply>*,
                       grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void* tag)>
        request;
    std::function<void(UnaryCall&)> serve;
  };
  UnaryCall(CallQueue& queue, Method method) : AsyncCall(queue), method_(std::move(method)) {
    method_.request(&context_, &request_, &writer_, queue.get(), queue.get(), &come_);
  }
  const grpc::ServerContext& context() const { return context_; }
  const Request& request() const { return request_; }

  // Called on the queue's thread if the caller stops waiting.
  void set_on_cancelled(std::function<void()> on_cancelled) {
    on_cancelled_ = std::move(on_cancelled);
  }
  // Called on the queue's thread when gRPC has sent the answer or the caller has gone. A caller
  // that keeps its window closed delays it.
  void set_on_over(std::function<void()> on_over) { on_over_ = std::move(on_over); }
  // Counts the answer against the user until the end of the call. `budget` outlives it.
  void set_budget(AnswerBudget& budget, uid_t uid) {
    budget_ = &budget;
    uid_ = uid;
    budget.OnCall(uid);
  }
  // Call one of the two, once.
  std::unique_ptr<node::Answer<Reply>> MakeAnswer() { return std::make_unique<CallAnswer>(this); }
  void Refuse(const grpc::Status& status) { writer_.FinishWithError(status, &answered_); }

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

  ~UnaryCall() override {
    if (on_over_) on_over_();
    if (budget_ != nullptr) budget_->GiveBack(uid_, held_bytes_);
  }
  void AskForNext() override { new UnaryCall(queue_, method_); }
  void OnCome() override { method_.serve(*this); }
  void OnCancelled() override {
    if (on_cancelled_) on_cancelled_();
  }
  Failure Hold(const Reply& reply) {
    if (budget_ == nullptr) return {};
    const std::uint64_t bytes = reply.ByteSizeLong();
    Failure refused = budget_->Take(uid_, bytes);
    if (refused.ok()) held_bytes_ = bytes;
    return refused;
  }

  const Method method_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Reply> writer_{&context_};
  std::function<void()> on_cancelled_;
  std::function<void()> on_over_;
  AnswerBudget* budget_ = nullptr;
  uid_t uid_ = 0;
  std::uint64_t held_bytes_ = 0;
};

// Has `serve` get the method's calls. `ask` is the generated service's; it and `server` outlive the
// calls.
template <typename Service, typename Server, typename Request, typename Reply>
void ServeUnary(CallQueue& queue, std::type_identity_t<Service>& service,
                void (Service::*ask)(grpc::ServerContext*, Request*,
                                     grpc::ServerAsyncResponseWriter<Reply>*,
                                     grpc::CompletionQueue*, grpc::ServerCompletionQueue*,
                                     void* tag),
                Server& server, void (Server::*serve)(UnaryCall<Request, Reply>&)) {
  new UnaryCall<Request, Reply>(queue,
                                {std::bind_front(ask, &service), std::bind_front(serve, &server)});
}

}  // namespace mlxcomm::services
