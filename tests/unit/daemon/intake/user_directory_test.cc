// A user's name and rights, from a system that answers late or never.
#include "daemon/intake/user_directory.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "daemon/platform/machine.h"
#include "tests/unit/daemon/intake/local_process.h"

namespace mlxcomm::intake::user_directory_test {
namespace {

constexpr uid_t kSomebody = 4'000'000'123u;  // No account has this number.

// A system that waits until it is released. Static, because its thread may outlive a test.
class SlowSystem {
 public:
  static absl::StatusOr<User> Ask(uid_t uid, const UserOptions&) {
    std::unique_lock lock(mutex_);
    ++asked;
    changed_.wait(lock, [] { return !holds_; });
    if (uid == 7) return absl::UnavailableError("the directory is down");
    return User{"user-" + std::to_string(uid), false};
  }
  static void Hold() {
    const std::lock_guard lock(mutex_);
    holds_ = true;
    asked = 0;
  }
  static void LetGo() {
    const std::lock_guard lock(mutex_);
    holds_ = false;
    changed_.notify_all();
  }
  static inline std::atomic<int> asked{0};

 private:
  static inline std::mutex mutex_;
  static inline std::condition_variable changed_;
  static inline bool holds_ = false;
};

class UserDirectoryTest : public testing::Test {
 protected:
  ~UserDirectoryTest() override { SlowSystem::LetGo(); }
  // Waits for the answer, at most as long as the timer.
  void Learn(UserDirectory& directory, uid_t uid) {
    asio::steady_timer timer(io, std::chrono::minutes(1));
    bool over = false;
    directory.AwaitAnswer(uid, timer);
    timer.async_wait([&](const asio::error_code&) { over = true; });
    ASSERT_TRUE(RunUntil(io, [] {}, [&] { return over; }));
    directory.StopWaiting(uid, timer);
  }
  std::uint64_t now() const { return platform::MonotonicNow(); }
  asio::io_context io;
};

TEST_F(UserDirectoryTest, DoesNotAskTheSystemIfUidsAreEnough) {
  UserDirectory shared(io, {UserNaming::kShared, ""});
  EXPECT_EQ((**shared.Find(kSomebody, now())).name, "");
  UserDirectory by_uid(io, {UserNaming::kByUid, ""});
  EXPECT_EQ((**by_uid.Find(kSomebody, now())).name, "#4000000123");
  EXPECT_FALSE((**by_uid.Find(kSomebody, now())).sees_all);
  EXPECT_TRUE((**by_uid.Find(0, now())).sees_all);
  EXPECT_TRUE((**by_uid.Find(::geteuid(), now())).sees_all);
}

TEST_F(UserDirectoryTest, KnowsAUsersNameAfterTheSystemsAnswer) {
  UserDirectory directory(io, {UserNaming::kByName, ""});
  EXPECT_FALSE(directory.Find(0, now()));
  Learn(directory, 0);
  const auto root = directory.Find(0, now());
  ASSERT_TRUE(root && root->ok());
  EXPECT_EQ((*root)->name, "root");
  EXPECT_TRUE((*root)->sees_all);
  EXPECT_FALSE(directory.Find(0, now() + UserDirectory::kKeptNs)) << "it is asked anew in time";
}

// Why: in a container uids have no names, and an ordinary account may use 65536 of them.
TEST_F(UserDirectoryTest, RefusesAUidWithoutAnAccount) {
  UserDirectory directory(io, {UserNaming::kByName, "no-such-group-here"});
  Learn(directory, kSomebody);
  EXPECT_TRUE(absl::IsPermissionDenied(directory.Find(kSomebody, now())->status()));
}

TEST_F(UserDirectoryTest, NamesAUidWithoutAnAccountByItsNumberIfConfigured) {
  UserDirectory directory(io, {UserNaming::kByName, "no-such-group-here", true});
  Learn(directory, kSomebody);
  EXPECT_EQ((**directory.Find(kSomebody, now())).name, "#4000000123");
  EXPECT_FALSE((**directory.Find(kSomebody, now())).sees_all);
}

// How: an account of the system; the operators' group is its own first group, or another one.
TEST_F(UserDirectoryTest, MembersOfTheOperatorsGroupSeeAll) {
  constexpr uid_t kDaemonAccount = 1;  // "daemon", on Linux and macOS.
  const group* const own = ::getgrgid(1);
  ASSERT_NE(own, nullptr);
  const auto user = UserDirectory::AskSystem(kDaemonAccount, {UserNaming::kByName, own->gr_name});
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_TRUE(user->sees_all);
  const auto other =
      UserDirectory::AskSystem(kDaemonAccount, {UserNaming::kByName, "no-such-group-here"});
  EXPECT_FALSE(other->sees_all);
}

// Why: a user directory on the network can hang; neither a hello nor the loop may hang with it.
TEST_F(UserDirectoryTest, EachWaiterHasItsDeadlineAndTheSystemIsAskedOnce) {
  SlowSystem::Hold();
  UserDirectory directory(io, {UserNaming::kByName, ""}, &SlowSystem::Ask);
  asio::steady_timer first(io, std::chrono::milliseconds(1));
  asio::steady_timer second(io, std::chrono::minutes(1));
  bool late = false;
  bool answered = false;
  directory.AwaitAnswer(5, first);
  directory.AwaitAnswer(5, second);
  first.async_wait([&](const asio::error_code& cancelled) { late = !cancelled; });
  second.async_wait([&](const asio::error_code& cancelled) { answered = bool(cancelled); });
  ASSERT_TRUE(RunUntil(io, [] {}, [&] { return late; }));
  directory.StopWaiting(5, first);
  EXPECT_FALSE(answered);
  EXPECT_FALSE(directory.Find(5, now()));
  SlowSystem::LetGo();
  ASSERT_TRUE(RunUntil(io, [] {}, [&] { return answered; }));
  directory.StopWaiting(5, second);
  EXPECT_EQ((**directory.Find(5, now())).name, "user-5");
  EXPECT_EQ(SlowSystem::asked, 1);
}

TEST_F(UserDirectoryTest, CachesARefusalBriefly) {
  UserDirectory directory(io, {UserNaming::kByName, ""}, &SlowSystem::Ask);
  Learn(directory, 7);
  const auto user = directory.Find(7, now());
  ASSERT_TRUE(user);
  EXPECT_THAT(std::string(user->status().message()), testing::HasSubstr("is down"));
  EXPECT_FALSE(directory.Find(7, now() + UserDirectory::kErrorKeptNs));
}

TEST_F(UserDirectoryTest, EndsWhileAQueryIsPending) {
  SlowSystem::Hold();
  asio::steady_timer timer(io, std::chrono::minutes(1));
  {
    UserDirectory directory(io, {UserNaming::kByName, ""}, &SlowSystem::Ask);
    directory.AwaitAnswer(5, timer);
    ASSERT_TRUE(RunUntil(io, [] {}, [] { return SlowSystem::asked == 1; }));
  }
  SlowSystem::LetGo();
}

}  // namespace
}  // namespace mlxcomm::intake::user_directory_test
