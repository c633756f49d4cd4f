// The use of this daemon by each user and by all together, and the limits.
//
//   Admit(user, arena) ─▶ clients, arena bytes ──Begin, End: operations──▶ Leave() ─▶ the client
//                                                    is not counted ──Release()──▶ its memory
//
// A user is a uid of this machine, so users who share jobs still have separate limits.
//
// Owner: Intake. Thread: the loop's. Memory: an entry for each user with any use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "daemon/intake/user_directory.h"
#include "proto/types/failure.h"

namespace mlxcomm::intake {

struct Amounts {
  std::uint64_t clients = 0;
  std::uint64_t arena_bytes = 0;  // Address space.
  std::uint64_t operations = 0;   // Counts those in flight.
};

struct UserUse {
  uid_t uid = 0;
  std::string name;
  Amounts used;
  std::size_t taken_in_turn = 0;  // Submissions taken in the loop's turn `turn`.
  std::uint64_t turn = 0;
};

class UserLimits {
 public:
  UserLimits(const Amounts& per_user, const Amounts& all) : per_user_(per_user), all_(all) {}
  UserLimits(const UserLimits&) = delete;
  UserLimits& operator=(const UserLimits&) = delete;

  // One in this many client places and arena bytes is reserved for users who see all jobs.
  static constexpr std::uint64_t kKeptShare = 8;

  // Counts a client with this arena, or returns the limit that it would exceed.
  Failure Admit(uid_t uid, const User& user, std::uint64_t arena_bytes);
  // The use of an admitted client's user; valid until Release().
  UserUse& Of(uid_t uid) { return users_.at(uid); }
  // The client has ended.
  void Leave(UserUse& use);
  // The client's arena is released; `operations` of it were still in flight. Erases the use once no
  // other client shares it.
  void Release(UserUse& use, std::uint64_t arena_bytes, std::uint64_t operations);

  // RESOURCE_EXHAUSTED: the limit is exceeded. The operation counts anyway, until EndOperation().
  Failure BeginOperation(UserUse& use) {
    ++use.used.operations;
    ++used_.operations;
    const bool fits =
        use.used.operations <= per_user_.operations && used_.operations <= all_.operations;
    return fits ? Failure{} : TooManyOperations(use);
  }
  void EndOperation(UserUse& use) {
    --use.used.operations;
    --used_.operations;
  }

  const Amounts& used() const { return used_; }
  const Amounts& per_user() const { return per_user_; }
  const Amounts& all() const { return all_; }
  std::vector<UserUse> Users() const;

 private:
  Failure TooManyOperations(const UserUse& use) const;

  const Amounts per_user_;
  const Amounts all_;
  Amounts used_;
  std::map<uid_t, UserUse> users_;
};

}  // namespace mlxcomm::intake
