// The page's data: the JSON of several verbs, sent to each viewer when it changes.
//
//   daemon ── event stream ──▶ wakes ──▶ poll: status, topology, record ──▶ parts ──▶ viewers
//                                              └──▶ history ──▶ viewers
//
// Owner: the verb, until the process exits, because its threads block in endless calls. Thread:
// any; three own threads query the daemon. Memory: one text for each part, the last events, and the
// history.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "client/ctl/web/history.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

struct FeedOptions {
  std::string socket_path;
  std::uint64_t interval_ns = 1'000'000'000;  // The time between polls without events.
};

// Formats a server-sent event. Each line of `data` gets its own field, so that data cannot end the
// event.
inline std::string ServerSentEvent(std::string_view name, std::string_view data) {
  std::string out = "event: ";
  out.append(name).append("\n");
  for (;;) {
    const std::size_t end = data.find_first_of("\r\n");
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) return out + "\n";
    data.remove_prefix(end + 1);
  }
}

class Feed {
 public:
  explicit Feed(const FeedOptions& options);

  // Polls once, then starts the threads.
  void Start();

  struct Contact {
    Failure failure;  // The last poll's.
    bool ever_succeeded = false;
  };
  Contact LastContact();

  // Tracks what a viewer has received. It gets no data from before its first poll, because polls
  // without viewers are incomplete.
  struct Viewer {
    std::uint64_t seen = 0;
    std::uint64_t first_poll = 0;
    std::uint64_t sampled = 0;
  };
  // Returns nullopt if there are too many viewers.
  std::optional<Viewer> Enter();
  void Leave();
  // Returns events for all parts and samples that are new since the last call. Waits for some; "":
  // timeout.
  std::string Next(Viewer& viewer, std::uint64_t ns);

 private:
  static constexpr std::array<std::string_view, 8> kParts = {
      "daemon", "following", "health", "status", "topology", "record", "events", "doctor"};
  struct Part {
    std::string json;
    std::uint64_t changed = 0;  // The value of version_; 0: no data yet.
  };

  void FollowEvents();
  void PollForever();
  void DiagnoseForever();
  void Poll(bool all);
  Failure PublishAll(Failure failure, const v1::StatusReply& status);
  void PublishPoll(const Failure& failure, std::uint64_t unix_ns);
  void PublishFollowing(const Failure& failure);
  void AddEvent(std::string json);
  void Publish(std::string_view part, std::string json);
  // Waits for the timeout or, if there are viewers, for a wakeup after `done`.
  void WaitFor(std::unique_lock<std::mutex>& lock, std::uint64_t ns, std::uint64_t& done);

  const FeedOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;  // Viewers wait for a changed part.
  std::condition_variable woken_;    // The own threads wait for events and viewers.
  std::array<Part, kParts.size()> parts_;
  std::deque<std::string> events_;  // The last events, as JSON.
  std::uint64_t version_ = 0;
  std::uint64_t wakeups_ = 0;
  std::uint64_t polls_begun_ = 0;
  std::uint64_t polls_done_ = 0;
  std::uint64_t seen_unix_ns_ = 0;  // Time of the last successful poll.
  Failure failure_;                 // The last poll's.
  History history_;
  int viewers_ = 0;
};

}  // namespace mlxcomm::ctl
