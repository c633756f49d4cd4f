// The user of a local process: the name for its jobs, and whether it may see all users' jobs.
//
//   Find(uid) ─known─▶ User
//      └──not yet: AwaitAnswer() ─▶ the directory's thread asks the system ─▶ the waiters' timers
//                                                                              are cancelled
//
// The system may ask a directory on the network, for seconds or for ever, so it is asked on a
// thread of its own, one question after another, and each waiter has a deadline. That thread is not
// joined at the end, because nothing can end its waiting. Answers are kept for kKeptNs (refusals
// for kErrorKeptNs), so a change of a group takes effect after that.
//
// Owner: Acceptor. Thread: the loop's. Memory: an entry for each user, at most kKnownMax, and a
// question for each user who waits, which the acceptor bounds.
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
  std::string name;       // For its jobs (proto/types/job_id.h); empty where users share.
  bool sees_all = false;  // Root, the daemon's own user, the operators.
};

struct UserOptions {
  UserNaming naming = UserNaming::kShared;
  std::string operators_group = {};  // Empty: none.
  bool unknown_users = false;        // Those without an account are served, too.
};

// Root and the daemon's own user, who see all and have places of their own.
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

  // What is known about the user; an error: the system did not answer. Nothing: it has not been
  // asked, or not recently.
  std::optional<absl::StatusOr<User>> Find(uid_t uid, std::uint64_t now_ns);
  // Asks the system, unless it is being asked; cancels `timer` when the answer is there. The caller
  // must end its own wait.
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
  static void Work(std::shared_ptr<Questions> questions);
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
