#include "daemon/intake/user_directory.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/user_account.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::intake {
namespace {

// No account's name begins like this.
std::string NumberName(uid_t uid) { return absl::StrCat("#", uid); }

// A group that does not exist has no members.
absl::StatusOr<bool> IsIn(const platform::UserAccount& account, const std::string& group) {
  if (group.empty()) return false;
  const absl::StatusOr<gid_t> found = platform::FindGroup(group);
  if (absl::IsNotFound(found.status())) return false;
  if (!found.ok()) return found.status();
  return std::ranges::find(account.groups, *found) != account.groups.end();
}

}  // namespace

struct UserDirectory::Questions {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<uid_t> open;
  UserDirectory* asker = nullptr;  // nullptr: destroyed.
};

UserDirectory::UserDirectory(asio::io_context& io, UserOptions options, Lookup lookup)
    : io_(io), options_(std::move(options)), lookup_(lookup) {}

UserDirectory::~UserDirectory() {
  if (questions_ == nullptr) return;
  const std::lock_guard lock(questions_->mutex);
  questions_->asker = nullptr;
  questions_->changed.notify_all();
}

bool MaySeeAll(uid_t uid) { return uid == 0 || uid == ::geteuid(); }

absl::StatusOr<User> UserDirectory::AskSystem(uid_t uid, const UserOptions& options) {
  User user;
  user.sees_all = MaySeeAll(uid);
  if (options.naming != UserNaming::kShared) user.name = NumberName(uid);
  const absl::StatusOr<platform::UserAccount> account = platform::FindAccount(uid);
  if (absl::IsNotFound(account.status())) {
    if (user.sees_all || options.unknown_users) return user;
    return absl::PermissionDeniedError(
        absl::StrCat("it does not serve user ", uid,
                     ", who has no account on this machine: create one, or "
                     "set clients { unknown_users: true } in the daemon's configuration"));
  }
  if (!account.ok()) return account.status();
  const std::string& name = account->name;
  const bool fits =
      !name.empty() && name.size() <= kNameBytesMax && IsPlainText(name) && name.front() != '#';
  if (options.naming == UserNaming::kByName && fits) user.name = name;
  const absl::StatusOr<bool> operates = IsIn(*account, options.operators_group);
  if (!operates.ok()) return operates.status();
  user.sees_all = user.sees_all || *operates;
  return user;
}

std::optional<absl::StatusOr<User>> UserDirectory::Find(uid_t uid, std::uint64_t now_ns) {
  if (!NeedsSystem()) {
    const bool shared = options_.naming == UserNaming::kShared;
    return User{shared ? std::string() : NumberName(uid), MaySeeAll(uid)};
  }
  const auto found = known_.find(uid);
  if (found == known_.end() || found->second.until_ns <= now_ns) return std::nullopt;
  return found->second.user;
}

void UserDirectory::AwaitAnswer(uid_t uid, asio::steady_timer& timer) {
  waiting_.emplace(uid, &timer);
  if (!asked_.insert(uid).second) return;
  if (questions_ == nullptr) {
    auto questions = std::make_shared<Questions>();
    questions->asker = this;
    try {
      std::thread(&UserDirectory::Work, questions, options_, lookup_).detach();
    } catch (const std::system_error& error) {
      // The system reports the same error for too many threads and for too little memory for their
      // stacks.
      const absl::Status none = absl::ResourceExhaustedError(
          absl::StrCat("no thread: ", error.what(),
                       ": raise mlxcommd's limit of threads (ulimit -u, TasksMax), or of memory "
                       "(ulimit -v, -d)"));
      asio::post(io_,
                 [this, uid, none] { OnAnswer(uid, none); });  // The caller is not waiting yet.
      return;
    }
    questions_ = std::move(questions);
  }
  const std::lock_guard lock(questions_->mutex);
  questions_->open.push_back(uid);
  questions_->changed.notify_all();
}

void UserDirectory::Work(std::shared_ptr<Questions> questions, const UserOptions& options,
                         Lookup lookup) {
  std::unique_lock lock(questions->mutex);
  for (;;) {
    questions->changed.wait(
        lock, [&] { return questions->asker == nullptr || !questions->open.empty(); });
    if (questions->asker == nullptr) return;
    const uid_t uid = questions->open.front();
    questions->open.pop_front();
    lock.unlock();
    absl::StatusOr<User> user = lookup(uid, options);
    lock.lock();
    if (questions->asker == nullptr) return;
    // The lock keeps the asker and its io_context alive; the loop does not run after the asker is
    // destroyed.
    asio::post(questions->asker->io_, [asker = questions->asker, uid, user = std::move(user)] {
      asker->OnAnswer(uid, user);
    });
  }
}

void UserDirectory::OnAnswer(uid_t uid, absl::StatusOr<User> user) {
  const std::uint64_t now_ns = platform::MonotonicNow();
  if (known_.size() >= kKnownMax) {
    std::erase_if(known_, [now_ns](const auto& entry) { return entry.second.until_ns <= now_ns; });
    if (known_.size() >= kKnownMax) known_.clear();
  }
  const std::uint64_t kept_ns = user.ok() ? kKeptNs : kErrorKeptNs;
  known_.insert_or_assign(uid, Known{std::move(user), now_ns + kept_ns});
  asked_.erase(uid);
  for (const auto& [waits_for, timer] : waiting_) {
    if (waits_for == uid) timer->cancel();
  }
}

}  // namespace mlxcomm::intake
