#include "client/ctl/web/feed.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/ctl/cli/json_text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/doctor/diagnosis.h"
#include "client/ctl/doctor/render_doctor.h"
#include "client/ctl/status/health.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

constexpr int kViewersMax = 12;
constexpr std::uint32_t kEventsShown = 50;
constexpr std::uint32_t kOperationsShown = 20;
// Limits polling while many events arrive.
constexpr auto kBetweenPolls = std::chrono::milliseconds(100);
constexpr auto kBetweenDiagnoses = std::chrono::seconds(10);
constexpr std::uint64_t kDiagnosisNs = 60'000'000'000;
// The feed waits this long before it asks for events again; the time doubles while the daemon
// refuses.
constexpr auto kPauseMin = std::chrono::milliseconds(300);
constexpr auto kPauseMax = std::chrono::milliseconds(10'000);

std::string Compact(const google::protobuf::Message& message) {
  std::string text;
  return ToJson(message, text, JsonLayout::kCompact).ok() ? text : std::string();
}

std::uint64_t UnixNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

template <class Message>
void SetError(Message& message, const Failure& failure) {
  message.mutable_error()->set_code(FailureCodeName(failure.code));
  message.mutable_error()->set_message(failure.message);
}

}  // namespace

Feed::Feed(const FeedOptions& options) : options_(options) { KeepGrpcInitialized(); }

void Feed::Start() {
  Poll(/*all=*/false);
  std::thread([this] { FollowEvents(); }).detach();
  std::thread([this] { PollForever(); }).detach();
  std::thread([this] { DiagnoseForever(); }).detach();
}

std::optional<Feed::Viewer> Feed::Enter() {
  const std::lock_guard lock(mutex_);
  if (viewers_ == kViewersMax) return std::nullopt;
  ++viewers_;
  ++wakeups_;  // The last data may be old.
  woken_.notify_all();
  return Viewer{.first_poll = polls_begun_ + 1};
}

void Feed::Leave() {
  const std::lock_guard lock(mutex_);
  --viewers_;
}

std::string Feed::Next(Viewer& viewer, std::uint64_t ns) {
  std::unique_lock lock(mutex_);
  const bool is_news = changed_.wait_for(lock, std::chrono::nanoseconds(ns), [&] {
    return version_ > viewer.seen && polls_done_ >= viewer.first_poll;
  });
  std::string out;
  if (!is_news) return out;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    if (parts_[i].changed > viewer.seen) out += ServerSentEvent(kParts[i], parts_[i].json);
  }
  viewer.seen = version_;
  v1::WebHistory history = history_.Since(viewer.sampled);
  if (history.samples_size() > 0)
    out += ServerSentEvent("history", JsonOf(std::move(history), JsonLayout::kCompact));
  return out;
}

void Feed::Publish(std::string_view part, std::string json) {
  if (json.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(kParts, part) - kParts.begin();
  Part& kept = parts_[static_cast<std::size_t>(at)];
  if (kept.json == json) return;
  kept = {std::move(json), ++version_};
  changed_.notify_all();
}

Feed::Contact Feed::LastContact() {
  const std::lock_guard lock(mutex_);
  return {failure_, seen_unix_ns_ != 0};
}

void Feed::WaitFor(std::unique_lock<std::mutex>& lock, std::uint64_t ns, std::uint64_t& done) {
  woken_.wait_for(lock, std::chrono::nanoseconds(ns),
                  [&] { return viewers_ > 0 && wakeups_ > done; });
  done = wakeups_;
}

void Feed::AddEvent(std::string json) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(json));
  if (events_.size() > kEventsShown) events_.pop_front();
  ++wakeups_;
  woken_.notify_all();
}

// The end of the daemon's event stream counts as an event, too.
void Feed::FollowEvents() {
  v1::EventsRequest request;
  request.set_last(kEventsShown);
  request.set_follow(true);
  auto pause = kPauseMin;
  for (;;) {
    bool first = true;
    const Failure failure =
        ReadEvents(options_.socket_path, request, [&](const v1::EventsReply& event) {
          const bool is_first = std::exchange(first, false);
          if (is_first) {  // A restarted daemon numbers its events from 1.
            const std::lock_guard lock(mutex_);
            events_.clear();
          }
          if (is_first) PublishFollowing({});
          AddEvent(Compact(event));
          return true;
        });
    PublishFollowing(failure);
    if (first) {
      if (failure.code != FailureCode::kUnavailable) pause = std::min(pause * 2, kPauseMax);
    } else {
      pause = kPauseMin;
      const std::lock_guard lock(mutex_);
      ++wakeups_;
      woken_.notify_all();
    }
    // Without a daemon a call is cheap, and the daemon may start at any moment.
    std::this_thread::sleep_for(failure.code == FailureCode::kUnavailable ? kPauseMin : pause);
  }
}

void Feed::PollForever() {
  std::uint64_t done = 0;
  for (;;) {
    std::uint64_t poll = 0;
    bool all = false;
    {
      std::unique_lock lock(mutex_);
      const std::uint64_t unseen = std::max(options_.interval_ns, History::kStepNs);
      WaitFor(lock, viewers_ > 0 ? options_.interval_ns : unseen, done);
      all = viewers_ > 0;
      poll = ++polls_begun_;
    }
    Poll(all);
    {
      const std::lock_guard lock(mutex_);
      polls_done_ = poll;
      changed_.notify_all();
    }
    std::this_thread::sleep_for(kBetweenPolls);
  }
}

void Feed::Poll(bool all) {
  v1::StatusReply status;
  const std::uint64_t now = UnixNow();
  Failure failure = FetchStatus(options_.socket_path, status);
  if (failure.ok()) {
    const std::lock_guard lock(mutex_);
    if (history_.Add(status, now)) ++version_;
  }
  if (all) failure = PublishAll(std::move(failure), status);
  PublishPoll(failure, now);
}

Failure Feed::PublishAll(Failure failure, const v1::StatusReply& status) {
  std::string events;
  {
    const std::lock_guard lock(mutex_);
    events = absl::StrCat("[", absl::StrJoin(events_, ","), "]");
  }
  Publish("events", std::move(events));
  if (!failure.ok()) return failure;
  Publish("status", Compact(status));
  const Health health = HealthOf(status);
  v1::WebHealth reported;
  reported.set_good(health.good);
  reported.set_text(health.text);
  Publish("health", JsonOf(std::move(reported), JsonLayout::kCompact));
  v1::TopologyReply topology;
  failure = FetchTopology(options_.socket_path, topology);
  if (!failure.ok()) return failure;
  Publish("topology", Compact(topology));
  v1::FlightRecordRequest request;
  request.set_operations_max(kOperationsShown);
  v1::FlightRecordReply record;
  // Optional: another program of this user may be reading the record.
  if (FetchRecord(options_.socket_path, request, record).ok()) Publish("record", Compact(record));
  return failure;
}

void Feed::PublishPoll(const Failure& failure, std::uint64_t unix_ns) {
  v1::WebDaemon reported;
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    if (failure.ok()) seen_unix_ns_ = unix_ns;
    reported.set_seen_unix_ns(seen_unix_ns_);
  }
  if (!failure.ok()) SetError(reported, failure);
  Publish("daemon", JsonOf(std::move(reported), JsonLayout::kCompact));
}

// PublishPoll reports a missing daemon.
void Feed::PublishFollowing(const Failure& failure) {
  v1::WebFollowing reported;
  if (!failure.ok() && failure.code != FailureCode::kUnavailable) SetError(reported, failure);
  Publish("following", JsonOf(std::move(reported), JsonLayout::kCompact));
}

// Skips the Python packages' self tests, which would run a program of each package every time.
void Feed::DiagnoseForever() {
  DiagnosisOptions how;
  how.socket_path = options_.socket_path;
  how.python = false;
  std::uint64_t done = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      WaitFor(lock, kDiagnosisNs, done);
      woken_.wait(lock, [this] { return viewers_ > 0; });
    }
    Publish("doctor", FindingsAsJson(Diagnose(how)));
    std::this_thread::sleep_for(kBetweenDiagnoses);
  }
}

}  // namespace mlxcomm::ctl
