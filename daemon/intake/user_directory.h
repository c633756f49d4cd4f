// Looks up the user of a local process: the name for its jobs, and whether it may see all users'
// jobs.
//
//   Find(uid) ─known─▶ User
//      └──not yet: AwaitAnswer() ─▶ the directory's thread asks the system ─▶ the waiters' timers
//                                                                              are cancelled
//
// The system may query a directory on the network and block forever. So a separate thread makes the
// queries, one at a time, and each waiter has a deadline. The thread is never joined, because a
// blocked query cannot be cancelled.
//
// Owner: Acceptor. Thread: the loop's. Memory: an entry for each user, at most kKnownMax, and a
// query for each waiting user, which the acceptor bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "absl/status/statusor.h"

namespace mlxcomm::intake {

enum class UserNaming : std::uint8_t { kByName, kByUid, kShared };

struct User {
  std::string name;       // Names its jobs (proto/types/job_id.h); empty if users share jobs.
  bool sees_all = false;  // Root, the daemon's own user, the operators.
};

struct UserOptions {
  UserNaming naming = UserNaming::kShared;
  std::string operators_group = {};  // Empty: none.
  bool unknown_users = false;        // Also serve uids without an account.
};

// Returns true for root and the daemon's own user.
bool MaySeeAll(uid_t uid);

class UserDirectory {
 public:
  static constexpr std::uint64_t kKeptNs = 60'000'000'000;
  static constexpr std::uint64_t kErrorKeptNs = 1'000'000'000;
  static constexpr std::size_t kKnownMax = 1024;
  static constexpr std::size_t kNameBytesMax = 200;
  // Asks the system; tests replace it.
  using Lookup = absl::StatusOr<User> (*)(uid_t uid, const UserOptions& options);

  UserDirectory(asio::io_context& io, UserOptions options, Lookup lookup = &AskSystem);
  UserDirectory(const UserDirectory&) = delete;
  UserDirectory& operator=(const UserDirectory&) = delete;
  ~UserDirectory();

  // The cached answer for the user, or the system's error. nullopt if no answer is cached.
  std::optional<absl::StatusOr<User>> Find(uid_t uid, std::uint64_t now_ns);
  // Queries the system unless a query is pending, and cancels `timer` when the answer arrives. The
  // caller must call StopWaiting() afterwards.
  void AwaitAnswer(uid_t uid, asio::steady_timer& timer);
  void StopWaiting(uid_t uid, asio::steady_timer& timer) { waiting_.erase({uid, &timer}); }

  static absl::StatusOr<User> AskSystem(uid_t uid, const UserOptions& options);

 private:
  struct Known {
    absl::StatusOr<User> user;
    std::uint64_t until_ns = 0;
  };
  struct Questions;  // Shared with the thread, which may outlive this.

  bool NeedsSystem() const {
    return options_.naming == UserNaming::kByName || !options_.operators_group.empty();
  }
  static void Work(std::shared_ptr<Questions> questions, const UserOptions& options, Lookup lookup);
  void OnAnswer(uid_t uid, absl::StatusOr<User> user);

  asio::io_context& io_;
  const UserOptions options_;
  const Lookup lookup_;
  std::shared_ptr<Questions> questions_;  // Made with the first question.
  std::map<uid_t, Known> known_;
  std::set<std::pair<uid_t, asio::steady_timer*>> waiting_;
  std::set<uid_t> asked_;
};

}  // namespace mlxcomm::intake
