// What each user, and all together, use of this daemon, and the limits.
//
//   Admit(user, arena) ─▶ clients, arena bytes ──Begin, End: operations──▶ Leave() ─▶ the client
//                                                    is not counted ──Release()──▶ its memory
//
// A user is a number of this machine, whatever name its jobs have: users who share jobs have limits
// of their own all the same.
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
  std::uint64_t operations = 0;   // In flight.
};

struct UserUse {
  uid_t uid = 0;
  std::string name;
  Amounts used;
  std::size_t taken_in_turn = 0;  // Submissions, in the loop's turn `turn`.
  std::uint64_t turn = 0;
};

class UserLimits {
 public:
  UserLimits(const Amounts& per_user, const Amounts& all) : per_user_(per_user), all_(all) {}
  UserLimits(const UserLimits&) = delete;
  UserLimits& operator=(const UserLimits&) = delete;

  // Of all clients' places and arena bytes, one in this many is for those who see all: others cannot take it.
  static constexpr std::uint64_t kKeptShare = 8;

  // Counts a client with such an arena, or returns the limit that it would exceed.
  Failure Admit(uid_t uid, const User& user, std::uint64_t arena_bytes);
  // For an admitted client; it stays until Release().
  UserUse& Of(uid_t uid) { return users_.at(uid); }
  // The client has ended.
  void Leave(UserUse& use);
  // The memory of its arena is released too; `operations` of it never ended by themselves. The use
  // disappears when no other client shares it.
  void Release(UserUse& use, std::uint64_t arena_bytes, std::uint64_t operations);

  // RESOURCE_EXHAUSTED: it is one too many; it counts all the same, until EndOperation().
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
