// The calls that gRPC brings, and the thread to which it brings them.
//
//   asked for ──one has come──▶ open ──answered and over──▶ deleted
//       '──────the server shuts down────────────────────────────^
//
// One call of each method is always asked for, so there are calls until the server shuts down; the
// thread ends with the last of them. It waits in gRPC without a deadline. gRPC's callbacks would be
// less to write, but are served by threads of gRPC's that look for work a few times a second, also
// where there is none for days.
//
// Owner: ControlServer has the queue; a call deletes itself. Thread: the queue's, which makes calls,
// tells them what has come and deletes them; answers come from any. Memory: of open calls as many
// as the sessions' connections have streams.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>

#include <grpcpp/grpcpp.h>

namespace mlxcomm::control {

class CallQueue {
 public:
  explicit CallQueue(grpc::ServerBuilder& builder) : queue_(builder.AddCompletionQueue()) {}

  // Once there are calls.
  void Start();
  // Once, when the server has shut down, and while it is there. Returns when every call has been
  // answered. Without it the queue must not go.
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
  // What gRPC is given with all that it is asked for, and gives back once when that is done.
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

  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;

 protected:
  explicit AsyncCall(CallQueue& queue);
  virtual ~AsyncCall();

  virtual void AskForNext() = 0;  // Another call of the same method.
  virtual void OnCome() = 0;      // To be answered, with answered_, once and at any time.
  virtual void OnCancelled() {}   // Nobody waits for the answer, which is still to be given.

  CallQueue& queue_;
  grpc::ServerContext context_;
  Tag come_{*this, &AsyncCall::Come};
  Tag answered_{*this, &AsyncCall::Answered};

 private:
  void Come(bool ok);
  void Answered(bool ok);
  void Over(bool ok);
  void EndOfTag();

  Tag over_{*this, &AsyncCall::Over};
  int tags_out_ = 2;  // Of an open call: those that say that it is answered, and that it is over.
};

}  // namespace mlxcomm::control
