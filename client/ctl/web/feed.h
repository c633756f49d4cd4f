// What the page shows, kept as the verbs' own JSON, and told to each viewer as it changes.
//
//   daemon ── its stream of events ──▶ wakes ──▶ status, topology, record ──▶ parts ──▶ viewers
//                                                   └──▶ history ──▶ viewers
//
// Owner: the verb, until the process ends: its threads wait in calls that have no end.
// Thread: any but for Start; three of its own ask the daemon.
// Memory: one text for each part, the last events, and the history.
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
  std::uint64_t interval_ns = 1'000'000'000;  // Between two looks where nothing happens.
};

// A message of the stream that a browser's EventSource reads. Of `data` each line is one of the message's:
// a text cannot end the message, nor begin another.
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
  explicit Feed(const FeedOptions& options) : options_(options) {}

  // Looks for the first time, then starts its threads.
  void Start();

  struct Contact {
    Failure failure;         // Ok: the daemon.
    bool was_there = false;  // At some look.
  };
  Contact LastContact();

  // What a viewer has. It gets no part that was last looked at before it came: the daemon
  // was not asked for all while nobody looked.
  struct Viewer {
    std::uint64_t seen = 0;
    std::uint64_t first_look = 0;
    std::uint64_t sampled = 0;
  };
  // None: there are as many viewers as there may be.
  std::optional<Viewer> Enter();
  void Leave();
  // As messages of the stream, all parts that have changed since the last call, and new samples. Waits for
  // some; empty: the time is over.
  std::string Next(Viewer& viewer, std::uint64_t ns);

 private:
  static constexpr std::array<std::string_view, 8> kParts = {
      "daemon", "following", "health", "status", "topology", "record", "events", "doctor"};
  struct Part {
    std::string json;
    std::uint64_t changed = 0;  // A number of version_; 0: it is not known yet.
  };

  void FollowEvents();
  void LookAgainAndAgain();
  void DiagnoseAgainAndAgain();
  void Look(bool all);
  Failure PublishAll(Failure failure, const v1::StatusReply& status);
  void PublishLook(const Failure& failure, std::uint64_t unix_ns);
  void PublishFollowing(const Failure& failure);
  void AddEvent(std::string json);
  void Publish(std::string_view part, std::string json);
  // Until either the time is over or, where somebody looks, `done` is behind what has happened.
  void WaitFor(std::unique_lock<std::mutex>& lock, std::uint64_t ns, std::uint64_t& done);

  const FeedOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;   // A part; waited for by viewers.
  std::condition_variable happened_;  // Something at the daemon; waited for by those that ask.
  std::array<Part, kParts.size()> parts_;
  std::deque<std::string> events_;  // The last, as JSON.
  std::uint64_t version_ = 0;
  std::uint64_t happenings_ = 0;
  std::uint64_t looks_begun_ = 0;
  std::uint64_t looks_done_ = 0;
  std::uint64_t seen_unix_ns_ = 0;  // Of the last look that has found a daemon.
  Failure failure_;                 // Of the last look.
  History history_;
  int viewers_ = 0;
};

}  // namespace mlxcomm::ctl
