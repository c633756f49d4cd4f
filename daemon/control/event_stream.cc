#include "daemon/control/event_stream.h"

#include <algorithm>
#include <atomic>
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

std::atomic<std::uint32_t> g_streams{0};
constexpr std::size_t kBatch = 32;

class EventStream final : public grpc::ServerWriteReactor<v1::EventsReply> {
 public:
  EventStream(const telemetry::EventLog& log, const EventReader& reader,
              const v1::EventsRequest& request)
      : log_(log), reader_(reader), follow_(request.follow()) {
    const std::uint64_t next = log_.next();
    const std::uint64_t wanted = std::min<std::uint64_t>(request.last(), next - 1);
    // Those that are no longer there were not promised.
    const telemetry::EventLog::Part part = log_.Read(next - wanted, 0);
    from_ = part.next;
    Advance();
  }
  ~EventStream() override { g_streams.fetch_sub(1); }

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
      telemetry::EventLog::Part part = log_.Read(from_, kBatch);
      from_ = part.next;
      if (part.lost == 0 && part.events.empty()) {
        if (!follow_) return grpc::Status::OK;
        LookLater();
        return std::nullopt;
      }
      batch_ = std::move(part.events);
      at_ = 0;
      KeepVisible();
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
  void KeepVisible() {
    std::erase_if(batch_, [this](const telemetry::LoggedEvent& event) {
      return event.user && !MaySee(reader_.viewer, *event.user);
    });
  }
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
  const EventReader reader_;
  const bool follow_;
  std::mutex mutex_;
  std::optional<grpc::Alarm> alarm_;
  v1::EventsReply reply_;
  std::vector<telemetry::LoggedEvent> batch_;
  std::size_t at_ = 0;
  std::uint64_t from_ = 1;
  bool waiting_ = false;
  bool cancelled_ = false;
};

class Refused final : public grpc::ServerWriteReactor<v1::EventsReply> {
 public:
  explicit Refused(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<v1::EventsReply>* StreamEvents(const telemetry::EventLog& log,
                                                        const EventReader& reader,
                                                        const v1::EventsRequest& request) {
  if (g_streams.fetch_add(1) >= kEventStreamsMax) {
    g_streams.fetch_sub(1);
    return new Refused({grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "as many read events as may at once: end one of them"});
  }
  return new EventStream(log, reader, request);
}

}  // namespace mlxcomm::control
