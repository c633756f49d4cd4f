#include "client/ctl/web/feed.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/ctl/cli/json_text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/doctor/examination.h"
#include "client/ctl/doctor/render_doctor.h"
#include "client/ctl/status/health.h"
#include "client/ctl/web/server_sent_event.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

constexpr int kViewersMax = 12;
constexpr std::uint32_t kEventsShown = 50;
constexpr std::uint32_t kOperationsShown = 20;
// A cluster in which much happens is not asked for all of it each time.
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr auto kBetweenExaminations = std::chrono::seconds(10);
constexpr std::uint64_t kExaminationNs = 60'000'000'000;
constexpr auto kUntilDaemonIsTriedAgain = std::chrono::milliseconds(300);

std::string Compact(const google::protobuf::Message& message) {
  std::string text;
  return ToJson(message, text, JsonLayout::kCompact).ok() ? text : std::string();
}

}  // namespace

void Feed::Start() {
  std::thread([this] { FollowEvents(); }).detach();
  std::thread([this] { LookAgainAndAgain(); }).detach();
  std::thread([this] { ExamineAgainAndAgain(); }).detach();
}

bool Feed::Enter() {
  const std::lock_guard lock(mutex_);
  if (viewers_ == kViewersMax) return false;
  ++viewers_;
  ++happenings_;  // What was last known may be old.
  happened_.notify_all();
  return true;
}

void Feed::Leave() {
  const std::lock_guard lock(mutex_);
  --viewers_;
}

std::string Feed::Next(std::uint64_t& seen, std::uint64_t ns) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(ns), [&] { return version_ > seen; });
  std::string out;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    if (parts_[i].changed > seen) out += ServerSentEvent(kParts[i], parts_[i].json);
  }
  seen = version_;
  return out;
}

void Feed::Publish(std::string_view part, std::string json) {
  if (json.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto at = std::find(kParts.begin(), kParts.end(), part) - kParts.begin();
  Part& kept = parts_[static_cast<std::size_t>(at)];
  if (kept.json == json) return;
  kept = {std::move(json), ++version_};
  changed_.notify_all();
}

void Feed::WaitFor(std::uint64_t ns, std::uint64_t& done) {
  std::unique_lock lock(mutex_);
  happened_.wait_for(lock, std::chrono::nanoseconds(ns),
                     [&] { return viewers_ > 0 && happenings_ > done; });
  happened_.wait(lock, [&] { return viewers_ > 0; });
  done = happenings_;
}

void Feed::AddEvent(std::string json) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(json));
  if (events_.size() > kEventsShown) events_.pop_front();
  ++happenings_;
  happened_.notify_all();
}

// The daemon tells what happens at once; where it has gone, that is an event too.
void Feed::FollowEvents() {
  v1::EventsRequest request;
  request.set_last(kEventsShown);
  request.set_follow(true);
  for (;;) {
    bool first = true;
    const Failure failure =
        ReadEvents(options_.socket_path, request, [&](const v1::EventsReply& event) {
          if (std::exchange(first, false)) {  // A daemon that was started again counts from 1.
            const std::lock_guard lock(mutex_);
            events_.clear();
          }
          AddEvent(Compact(event));
          return true;
        });
    {
      const std::lock_guard lock(mutex_);
      if (!first || failure.code != FailureCode::kUnavailable) ++happenings_;
      happened_.notify_all();
    }
    std::this_thread::sleep_for(kUntilDaemonIsTriedAgain);
  }
}

void Feed::LookAgainAndAgain() {
  std::uint64_t done = 0;
  for (;;) {
    WaitFor(options_.interval_ns, done);
    Look();
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void Feed::Look() {
  std::string events;
  {
    const std::lock_guard lock(mutex_);
    events = absl::StrCat("[", absl::StrJoin(events_, ","), "]");
  }
  Publish("events", std::move(events));
  v1::StatusReply status;
  v1::TopologyReply topology;
  Failure failure = FetchStatus(options_.socket_path, status);
  if (failure.ok()) {
    Publish("daemon", "{}");
    Publish("status", Compact(status));
    const Health health = HealthOf(status);
    v1::WebHealth told;
    told.set_good(health.good);
    told.set_text(health.text);
    Publish("health", JsonOf(std::move(told), JsonLayout::kCompact));
    failure = FetchTopology(options_.socket_path, topology);
  }
  if (failure.ok()) {
    Publish("topology", Compact(topology));
    v1::FlightRecordRequest request;
    request.set_operations_max(kOperationsShown);
    v1::FlightRecordReply record;
    // Without it the page has all else: another program of this user may be reading it.
    if (FetchRecord(options_.socket_path, request, record).ok()) Publish("record", Compact(record));
    return;
  }
  v1::CommandFailed failed;
  failed.mutable_error()->set_code(FailureCodeName(failure.code));
  failed.mutable_error()->set_message(failure.message);
  Publish("daemon", JsonOf(std::move(failed), JsonLayout::kCompact));
}

// Without the Python packages' self tests, which would run a program of each again and again.
void Feed::ExamineAgainAndAgain() {
  ExaminationOptions how;
  how.socket_path = options_.socket_path;
  how.python = false;
  std::uint64_t done = 0;
  for (;;) {
    WaitFor(kExaminationNs, done);
    Publish("doctor", FindingsAsJson(Examine(how)));
    std::this_thread::sleep_for(kBetweenExaminations);
  }
}

}  // namespace mlxcomm::ctl
