// Looks up a user on a machine that cannot start a thread. This program has its own pthread_create,
// which fails on request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include "daemon/intake/user_directory.h"
#include "daemon/platform/machine.h"
#include "tests/unit/daemon/intake/local_process.h"

namespace {

std::atomic<bool> no_threads{false};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  if (no_threads) return EAGAIN;
  using Function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, argument);
}

namespace mlxcomm::intake::user_directory_thread_test {
namespace {

absl::StatusOr<User> Answer(uid_t, const UserOptions&) { return User{"somebody", false}; }

// Why: std::thread throws, and a process's hello would end the daemon.
TEST(UserDirectoryThreadTest, ReportsThatItCouldNotAskAndAsksLater) {
  asio::io_context io;
  UserDirectory directory(io, {UserNaming::kByName, ""}, &Answer);
  const auto learn = [&] {
    asio::steady_timer timer(io, std::chrono::minutes(1));
    bool over = false;
    directory.AwaitAnswer(5, timer);
    timer.async_wait([&](const asio::error_code&) { over = true; });
    EXPECT_TRUE(RunUntil(io, [] {}, [&] { return over; }));
    directory.StopWaiting(5, timer);
    return *directory.Find(5, platform::MonotonicNow());
  };
  no_threads = true;
  const absl::StatusOr<User> none = learn();
  no_threads = false;
  EXPECT_TRUE(absl::IsResourceExhausted(none.status())) << none.status();
  EXPECT_THAT(std::string(none.status().message()),
              testing::AllOf(testing::HasSubstr("no thread"), testing::HasSubstr("TasksMax"),
                             testing::HasSubstr("ulimit -v")));
  EXPECT_EQ(learn()->name, "somebody");
}

}  // namespace
}  // namespace mlxcomm::intake::user_directory_thread_test
