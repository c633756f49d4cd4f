// gRPC's calls, and the thread that waits for them.
//
//   requested ──a call has come──▶ open ──answered and over──▶ deleted
//       '──────the server shuts down───────────────────────────^
//
// One call of each method is always requested, so the thread ends after the server has shut down,
// with the last call. It waits in gRPC without a deadline.
//
// Owner: ControlServer owns the queue; a call deletes itself. Thread: the queue's creates, notifies
// and deletes calls; any may answer. Memory: the open calls.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>

#include <grpcpp/grpcpp.h>

namespace mlxcomm::services {

class CallQueue {
 public:
  explicit CallQueue(grpc::ServerBuilder& builder) : queue_(builder.AddCompletionQueue()) {}

  // Call it after the first calls were requested.
  void Start();
  // Call it once before destruction, after the server has shut down and while it exists. Returns
  // when every call has been answered.
  void End();
  grpc::ServerCompletionQueue* get() { return queue_.get(); }

 private:
  friend class AsyncCall;
  void Run();

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::size_t calls_ = 0;
  std::thread thread_;
};

class AsyncCall {
 public:
  // gRPC gets a tag with each request and returns it when the request is done.
  class Tag {
   public:
    using Method = void (AsyncCall::*)(bool ok);
    Tag(AsyncCall& call, Method method) : call_(call), method_(method) {}
    Tag(const Tag&) = delete;
    Tag& operator=(const Tag&) = delete;
    void Return(bool ok) { (call_.*method_)(ok); }  // May delete the call.

   private:
    AsyncCall& call_;
    Method method_;
  };

 protected:
  explicit AsyncCall(CallQueue& queue);
  virtual ~AsyncCall() { --queue_.calls_; }

  virtual void AskForNext() = 0;  // Requests another call of the same method.
  virtual void OnCome() = 0;      // Answer it with answered_, once and at any time.
  virtual void OnCancelled() {}   // The caller has gone; the call still needs an answer.

  CallQueue& queue_;
  grpc::ServerContext context_;
  Tag come_{*this, &AsyncCall::Come};
  Tag answered_{*this, &AsyncCall::Answered};

 private:
  void Come(bool ok);
  void Answered(bool) { EndOfTag(); }
  void Over(bool ok);
  void EndOfTag();

  Tag over_{*this, &AsyncCall::Over};
  int tags_out_ = 2;  // Counts the answer and the end of the call.
};

}  // namespace mlxcomm::services
