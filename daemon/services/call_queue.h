// The calls that gRPC brings, and the thread to which it brings them.
//
//   asked for ──one has come──▶ open ──answered and over──▶ deleted
//       '──────the server shuts down────────────────────────────^
//
// One call of each method is always asked for, so there are calls until the server shuts down; the
// thread ends with the last of them. It waits in gRPC without a deadline. gRPC's callbacks would
// need less code, but gRPC serves them on threads that look for work a few times a second, even
// when there is none for days.
//
// Owner: ControlServer has the queue; a call deletes itself. Thread: the queue's, which makes
// calls, informs them of events and deletes them; answers come from any. Memory: at most as many
// open calls as the sessions' connections have streams.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>

#include <grpcpp/grpcpp.h>

namespace mlxcomm::services {

class CallQueue {
 public:
  explicit CallQueue(grpc::ServerBuilder& builder) : queue_(builder.AddCompletionQueue()) {}

  // Call it once there are calls.
  void Start();
  // Call it once, after the server has shut down and while it still exists. Returns when every call
  // has been answered. The queue must not be destroyed without it.
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
  // Passed to gRPC with each request, which returns it once when that is done.
  class Tag {
   public:
    using Method = void (AsyncCall::*)(bool ok);
    Tag(AsyncCall& call, Method method) : call_(call), method_(method) {}
    Tag(const Tag&) = delete;
    Tag& operator=(const Tag&) = delete;
    void Return(bool ok) { (call_.*method_)(ok); }  // The call may be gone.

   private:
    AsyncCall& call_;
    Method method_;
  };

 protected:
  explicit AsyncCall(CallQueue& queue);
  virtual ~AsyncCall() { --queue_.calls_; }

  virtual void AskForNext() = 0;  // Asks for another call of the same method.
  virtual void OnCome() = 0;      // To be answered, with answered_, once and at any time.
  virtual void OnCancelled() {}   // The caller has gone; answered_ is still to be called.

  CallQueue& queue_;
  grpc::ServerContext context_;
  Tag come_{*this, &AsyncCall::Come};
  Tag answered_{*this, &AsyncCall::Answered};

 private:
  void Come(bool ok);
  void Answered(bool) { EndOfTag(); }  // The call does not care whether the answer has arrived.
  void Over(bool ok);
  void EndOfTag();

  Tag over_{*this, &AsyncCall::Over};
  int tags_out_ = 2;  // Open calls: for the answer, and for the end of the call.
};

}  // namespace mlxcomm::services
