#include "daemon/services/event_stream.h"

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <grpcpp/alarm.h>

#include "daemon/services/refusal.h"
#include "daemon/services/visibility.h"

namespace mlxcomm::services {
namespace {

constexpr std::size_t kBatch = 32;

class EventStream final : public AsyncCall {
 public:
  EventStream(CallQueue& queue, const EventsMethod& method) : AsyncCall(queue), method_(method) {
    method_.service.RequestEvents(&context_, &request_, &writer_, queue.get(), queue.get(), &come_);
  }

 private:
  ~EventStream() override {
    if (counted_) method_.streams.End(reader_);
  }

  void AskForNext() override { new EventStream(queue_, method_); }
  void OnCome() override {
    const auto who = method_.identify(context_);
    if (!who) return writer_.Finish(RefuseStranger(), &answered_);
    reader_ = who->peer;
    counted_ = method_.streams.Begin(reader_);
    if (!counted_) {
      return writer_.Finish(
          {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many readers of events: end one of them"},
          &answered_);
    }
    cursor_ = method_.log.Newest(request_.last(), [this](const auto& user) { return Sees(user); });
    Advance();
  }
  void OnCancelled() override {
    cancelled_ = true;
    if (waiting_) alarm_.Cancel();
  }
  void OnStepped(bool ok) {
    waiting_ = false;
    if (!ok)
      cancelled_ = true;  // Writes fail, and alarms are cancelled, only if the caller has gone.
    Advance();
  }

  // Starts the next write, the alarm or the end; one of them at a time.
  void Advance() {
    if (cancelled_) return writer_.Finish(grpc::Status::CANCELLED, &answered_);
    if (at_ == batch_.size()) {
      record::EventLog::Part part =
          method_.log.Read(cursor_, kBatch, [this](const auto& user) { return Sees(user); });
      batch_ = std::move(part.events);
      at_ = 0;
      if (part.lost != 0) {
        v1::EventsReply reply;
        reply.set_lost(part.lost);
        return Write(reply);
      }
      if (batch_.empty()) {
        if (!request_.follow()) return writer_.Finish(grpc::Status::OK, &answered_);
        return PollLater();
      }
    }
    WriteEvent(batch_[at_++]);
  }
  void Write(v1::EventsReply& reply) {
    reply.set_node(method_.node);
    writer_.Write(reply, &stepped_);
  }
  void WriteEvent(const record::LoggedEvent& event) {
    v1::EventsReply reply;
    reply.set_number(event.number);
    reply.set_unix_ns(event.unix_ns);
    reply.set_kind(event.kind);
    reply.set_severity(record::kSeverityNames[static_cast<std::size_t>(event.severity)]);
    reply.set_object(event.object);
    reply.set_text(event.text);
    Write(reply);
  }
  void PollLater() {
    waiting_ = true;
    alarm_.Set(queue_.get(), std::chrono::system_clock::now() + std::chrono::milliseconds(kPollMs),
               &stepped_);
  }
  bool Sees(const std::string& user) const { return MaySee(reader_.user, user); }

  const EventsMethod method_;
  v1::EventsRequest request_;
  grpc::ServerAsyncWriter<v1::EventsReply> writer_{&context_};
  Tag stepped_{*this, static_cast<Tag::Method>(&EventStream::OnStepped)};
  grpc::Alarm alarm_;
  intake::Peer reader_;
  record::EventLog::Cursor cursor_;
  std::vector<record::LoggedEvent> batch_;
  std::size_t at_ = 0;
  bool counted_ = false;
  bool waiting_ = false;
  bool cancelled_ = false;
};

}  // namespace

bool EventStreams::Begin(const intake::Peer& reader) {
  if (all_ >= kMax) return false;
  if (!reader.user.sees_all) {
    if (ordinary_ >= kOrdinaryMax) return false;
    std::uint32_t& own = of_user_[reader.uid];
    if (own >= kPerUserMax) return false;
    ++own;
    ++ordinary_;
  }
  ++all_;
  return true;
}

void EventStreams::End(const intake::Peer& reader) {
  --all_;
  if (reader.user.sees_all) return;
  --ordinary_;
  const auto own = of_user_.find(reader.uid);
  if (--own->second == 0) of_user_.erase(own);
}

void ServeEvents(CallQueue& queue, const EventsMethod& method) { new EventStream(queue, method); }

}  // namespace mlxcomm::services
