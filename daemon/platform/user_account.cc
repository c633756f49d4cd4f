#include "daemon/platform/user_account.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace mlxcomm::platform {
namespace {

// Entries may be long (a group lists its members), but must be bounded.
constexpr std::size_t kEntryBytesMin = 4096;
constexpr std::size_t kEntryBytesMax = std::size_t{16} << 20;

// Calls `query` with growing buffers until the entry fits. Returns its error, or 0.
template <typename Query>
int WithRoom(std::vector<char>& room, Query query) {
  for (std::size_t bytes = kEntryBytesMin; bytes <= kEntryBytesMax; bytes *= 4) {
    room.resize(bytes);
    int error = query(room.data(), room.size());
    while (error == EINTR) error = query(room.data(), room.size());
    if (error != ERANGE) return error;
  }
  return ERANGE;
}

// Some systems return these errors for an account that does not exist.
bool MeansNone(int error) { return error == 0 || error == ENOENT || error == ESRCH; }

// Stores the groups of `name`, including `first`. `count`: the size of `groups`, then the number of
// groups. Returns false if they do not fit. getgrouplist takes gid_t, or ints of that size on
// macOS.
template <typename Number>
bool GroupsOf(int (*list)(const char*, Number, Number*, int*), const std::string& name, gid_t first,
              gid_t* groups, int* count) {
  static_assert(sizeof(Number) == sizeof(gid_t));
  return list(name.c_str(), static_cast<Number>(first), reinterpret_cast<Number*>(groups), count) >=
         0;
}

}  // namespace

absl::StatusOr<UserAccount> FindAccount(uid_t uid) {
  std::vector<char> room;
  passwd entry{};
  passwd* found = nullptr;
  const int error = WithRoom(room, [&](char* bytes, std::size_t size) {
    return ::getpwuid_r(uid, &entry, bytes, size, &found);
  });
  if (found == nullptr && MeansNone(error)) {
    return absl::NotFoundError(absl::StrCat("no account has uid ", uid));
  }
  if (found == nullptr) return absl::UnavailableError(std::strerror(error));
  UserAccount account;
  account.name = entry.pw_name;
  account.group = entry.pw_gid;
  account.groups.resize(kGroupsMax);
  int count = static_cast<int>(kGroupsMax);
  if (!GroupsOf(::getgrouplist, account.name, account.group, account.groups.data(), &count)) {
    return absl::UnavailableError(
        absl::StrCat(account.name, " is in more than ", kGroupsMax, " groups"));
  }
  account.groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return account;
}

absl::StatusOr<gid_t> FindGroup(const std::string& name) {
  std::vector<char> room;
  group entry{};
  group* found = nullptr;
  const int error = WithRoom(room, [&](char* bytes, std::size_t size) {
    return ::getgrnam_r(name.c_str(), &entry, bytes, size, &found);
  });
  if (found != nullptr) return entry.gr_gid;
  if (MeansNone(error)) return absl::NotFoundError(absl::StrCat("no group ", name));
  return absl::UnavailableError(std::strerror(error));
}

}  // namespace mlxcomm::platform
