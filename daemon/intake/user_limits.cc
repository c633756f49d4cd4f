#include "daemon/intake/user_limits.h"

#include "absl/strings/str_cat.h"
#include "proto/types/invariant.h"

namespace mlxcomm::intake {
namespace {

Failure Exhausted(std::string message) {
  return {FailureCode::kResourceExhausted, kNoRank, std::move(message)};
}

// The name is empty if users share jobs.
std::string NameOf(uid_t uid, const std::string& name) {
  return name.empty() ? absl::StrCat("user #", uid) : absl::StrCat("user ", name);
}

bool Fits(std::uint64_t used, std::uint64_t more, std::uint64_t limit) {
  return used <= limit && more <= limit - used;
}

std::string TooManyClients(const std::string& who, std::uint64_t count, const char* field) {
  return absl::StrCat(who, count == 1 ? " 1 client" : absl::StrCat(" ", count, " clients"),
                      " already, the limit: raise clients { ", field,
                      " } in its configuration, or end some");
}

std::string TooLarge(const std::string& who, std::uint64_t used, std::uint64_t wanted,
                     std::uint64_t limit, const char* field) {
  return absl::StrCat(who, " ", used, " bytes of arenas, and ", wanted, " more exceed ", limit,
                      ": raise clients { ", field,
                      " } in its configuration, lower { "
                      "arena_bytes_max }, or end some");
}

}  // namespace

Failure UserLimits::Admit(uid_t uid, const User& user, std::uint64_t arena_bytes) {
  const auto found = users_.find(uid);
  const Amounts has = found == users_.end() ? Amounts{} : found->second.used;
  const std::string who = NameOf(uid, user.name);
  const std::uint64_t share = user.sees_all ? 0 : 1;
  const std::uint64_t clients = all_.clients - share * (all_.clients / kKeptShare);
  const std::uint64_t bytes = all_.arena_bytes - share * (all_.arena_bytes / kKeptShare);
  if (!Fits(used_.clients, 1, clients)) {
    return Exhausted(TooManyClients("it serves", used_.clients, "clients_max"));
  }
  if (!Fits(has.clients, 1, per_user_.clients)) {
    return Exhausted(TooManyClients(who + " has", has.clients, "clients_per_user_max"));
  }
  if (!Fits(used_.arena_bytes, arena_bytes, bytes)) {
    return Exhausted(
        TooLarge("its clients have", used_.arena_bytes, arena_bytes, bytes, "arena_bytes_all_max"));
  }
  if (!Fits(has.arena_bytes, arena_bytes, per_user_.arena_bytes)) {
    return Exhausted(TooLarge(who + " has", has.arena_bytes, arena_bytes, per_user_.arena_bytes,
                              "arena_bytes_per_user_max"));
  }
  UserUse& use = users_[uid];
  use.uid = uid;
  use.name = user.name;
  ++use.used.clients;
  ++used_.clients;
  use.used.arena_bytes += arena_bytes;
  used_.arena_bytes += arena_bytes;
  return {};
}

void UserLimits::Leave(UserUse& use) {
  MLXCOMM_INVARIANT(use.used.clients > 0);
  --use.used.clients;
  --used_.clients;
}

void UserLimits::Release(UserUse& use, std::uint64_t arena_bytes, std::uint64_t operations) {
  MLXCOMM_INVARIANT(use.used.arena_bytes >= arena_bytes && use.used.operations >= operations);
  use.used.arena_bytes -= arena_bytes;
  used_.arena_bytes -= arena_bytes;
  use.used.operations -= operations;
  used_.operations -= operations;
  if (use.used.clients == 0 && use.used.arena_bytes == 0) users_.erase(use.uid);
}

Failure UserLimits::TooManyOperations(const UserUse& use) const {
  const bool own = use.used.operations > per_user_.operations;
  return Exhausted(
      absl::StrCat(own ? absl::StrCat(NameOf(use.uid, use.name), " has ") : "all users have ",
                   own ? per_user_.operations : all_.operations,
                   " operations in flight, the limit: raise clients { ",
                   own ? "operations_per_user_max" : "operations_max",
                   " } in the daemon's configuration, or wait for some of them"));
}

std::vector<UserUse> UserLimits::Users() const {
  std::vector<UserUse> users;
  users.reserve(users_.size());
  for (const auto& [uid, use] : users_) users.push_back(use);
  return users;
}

}  // namespace mlxcomm::intake
