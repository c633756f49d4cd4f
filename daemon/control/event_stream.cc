#include "daemon/control/event_stream.h"

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <grpcpp/alarm.h>

#include "daemon/control/visibility.h"

namespace mlxcomm::control {
namespace {

constexpr std::size_t kBatch = 32;

class EventStream final : public grpc::ServerWriteReactor<v1::EventsReply> {
 public:
  EventStream(const telemetry::EventLog& log, EventStreams& streams, const EventReader& reader,
              const v1::EventsRequest& request)
      : log_(log),
        streams_(streams),
        reader_(reader),
        follow_(request.follow()),
        cursor_(log_.Newest(request.last(), [this](const auto& user) { return Sees(user); })) {
    Advance();
  }
  ~EventStream() override { streams_.End(reader_); }

  void OnWriteDone(bool ok) override {
    if (!ok) OnCancel();
    Advance();
  }
  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (waiting_) alarm_->Cancel();
  }
  void OnDone() override { delete this; }

 private:
  // At most one of write, alarm and the end is under way; whoever was the last goes on. After
  // Finish, which no lock may be held for, this may be gone.
  void Advance() {
    std::optional<grpc::Status> end;
    {
      const std::lock_guard lock(mutex_);
      end = Continue();
    }
    if (end) Finish(*end);
  }
  // With the lock; what the call ends with, if it does.
  std::optional<grpc::Status> Continue() {
    if (cancelled_) return grpc::Status::CANCELLED;
    while (at_ == batch_.size()) {
      telemetry::EventLog::Part part =
          log_.Read(cursor_, kBatch, [this](const auto& user) { return Sees(user); });
      if (part.lost == 0 && part.events.empty()) {
        if (!follow_) return grpc::Status::OK;
        LookLater();
        return std::nullopt;
      }
      batch_ = std::move(part.events);
      at_ = 0;
      if (part.lost == 0) continue;
      reply_.Clear();
      reply_.set_node(reader_.node);
      reply_.set_lost(part.lost);
      StartWrite(&reply_);
      return std::nullopt;
    }
    const telemetry::LoggedEvent& event = batch_[at_++];
    reply_.Clear();
    reply_.set_node(reader_.node);
    reply_.set_number(event.number);
    reply_.set_unix_ns(event.unix_ns);
    reply_.set_kind(event.kind);
    reply_.set_severity(telemetry::SeverityName(event.severity));
    reply_.set_object(event.object);
    reply_.set_text(event.text);
    StartWrite(&reply_);
    return std::nullopt;
  }
  bool Sees(const std::string& user) const { return MaySee(reader_.viewer, user); }
  // Each time an alarm of its own: the last one may be in its callback, here.
  void LookLater() {
    waiting_ = true;
    alarm_.emplace();
    alarm_->Set(std::chrono::system_clock::now() + std::chrono::milliseconds(kLookAgainMs),
                [this](bool) {
                  {
                    const std::lock_guard lock(mutex_);
                    waiting_ = false;
                  }
                  Advance();
                });
  }

  const telemetry::EventLog& log_;
  EventStreams& streams_;
  const EventReader reader_;
  const bool follow_;
  std::mutex mutex_;
  std::optional<grpc::Alarm> alarm_;
  v1::EventsReply reply_;
  std::vector<telemetry::LoggedEvent> batch_;
  std::size_t at_ = 0;
  telemetry::EventLog::Cursor cursor_;
  bool waiting_ = false;
  bool cancelled_ = false;
};

class Refused final : public grpc::ServerWriteReactor<v1::EventsReply> {
 public:
  explicit Refused(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

bool EventStreams::Begin(const EventReader& reader) {
  const std::lock_guard lock(mutex_);
  if (all_ >= kMax) return false;
  if (!reader.viewer.sees_all) {
    if (ordinary_ >= kOrdinaryMax) return false;
    std::uint32_t& own = of_user_[reader.uid];
    if (own >= kPerUserMax) return false;
    ++own;
    ++ordinary_;
  }
  ++all_;
  return true;
}

void EventStreams::End(const EventReader& reader) {
  const std::lock_guard lock(mutex_);
  --all_;
  if (reader.viewer.sees_all) return;
  --ordinary_;
  const auto own = of_user_.find(reader.uid);
  if (--own->second == 0) of_user_.erase(own);
}

grpc::ServerWriteReactor<v1::EventsReply>* StreamEvents(const telemetry::EventLog& log,
                                                        EventStreams& streams,
                                                        const EventReader& reader,
                                                        const v1::EventsRequest& request) {
  if (!streams.Begin(reader)) {
    return new Refused({grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "as many read events as may at once: end one of them"});
  }
  return new EventStream(log, streams, reader, request);
}

}  // namespace mlxcomm::control
