#include "daemon/services/call_queue.h"

namespace mlxcomm::services {

void CallQueue::Start() {
  thread_ = std::thread([this] { Run(); });
}

void CallQueue::End() {
  thread_.join();
  // gRPC itself still requests calls of unknown methods, and uses the server for them.
  queue_->Shutdown();
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) {
  }
}

void CallQueue::Run() {
  void* tag;
  bool ok;
  while (calls_ > 0 && queue_->Next(&tag, &ok)) static_cast<AsyncCall::Tag*>(tag)->Return(ok);
}

AsyncCall::AsyncCall(CallQueue& queue) : queue_(queue) {
  ++queue_.calls_;
  context_.AsyncNotifyWhenDone(&over_);
}

void AsyncCall::Come(bool ok) {
  if (!ok) {  // The server shuts down, and gRPC holds no other tag of this call.
    delete this;
    return;
  }
  AskForNext();
  OnCome();
}

void AsyncCall::Over(bool) {
  if (context_.IsCancelled()) OnCancelled();
  EndOfTag();
}

void AsyncCall::EndOfTag() {
  if (--tags_out_ == 0) delete this;
}

}  // namespace mlxcomm::services
