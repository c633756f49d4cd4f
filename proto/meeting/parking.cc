#include "proto/meeting/parking.h"

#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#elif defined(__APPLE__)
#include <dlfcn.h>

#include <cstddef>
#endif

namespace mlxcomm::meeting {
namespace {

static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t) &&
              std::atomic<std::uint64_t>::is_always_lock_free);

// The lower half comes first, because all supported processors are little-endian.
[[maybe_unused]] std::uint32_t* LowerHalf(std::atomic<std::uint64_t>& word) {
  return reinterpret_cast<std::uint32_t*>(&word);
}

}  // namespace

#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)

bool CanPark() { return true; }

void Park(std::atomic<std::uint64_t>& word, std::uint64_t seen, std::uint64_t timeout_ns) {
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  ::syscall(SYS_futex, LowerHalf(word), FUTEX_WAIT, static_cast<std::uint32_t>(seen), &timeout,
            nullptr, 0);
}

void WakeAll(std::atomic<std::uint64_t>& word) {
  ::syscall(SYS_futex, LowerHalf(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

#elif defined(__APPLE__)

namespace {

// <os/os_sync_wait_on_address.h>; older SDKs do not have it.
constexpr std::uint32_t kShared = 1;     // OS_SYNC_WAIT_ON_ADDRESS_SHARED and its wake.
constexpr std::uint32_t kMachTime = 32;  // OS_CLOCK_MACH_ABSOLUTE_TIME, in nanoseconds.

using WaitFunction = int (*)(void*, std::uint64_t, std::size_t, std::uint32_t, std::uint32_t,
                             std::uint64_t);
using WakeFunction = int (*)(void*, std::size_t, std::uint32_t);

struct Functions {
  WaitFunction wait = nullptr;
  WakeFunction wake = nullptr;
};

const Functions& Found() {
  static const Functions found = [] {
    Functions functions;
    functions.wait = reinterpret_cast<WaitFunction>(
        ::dlsym(RTLD_DEFAULT, "os_sync_wait_on_address_with_timeout"));
    functions.wake =
        reinterpret_cast<WakeFunction>(::dlsym(RTLD_DEFAULT, "os_sync_wake_by_address_all"));
    return functions;
  }();
  return found;
}

}  // namespace

bool CanPark() { return Found().wait != nullptr && Found().wake != nullptr; }

void Park(std::atomic<std::uint64_t>& word, std::uint64_t seen, std::uint64_t timeout_ns) {
  Found().wait(LowerHalf(word), static_cast<std::uint32_t>(seen), sizeof(std::uint32_t), kShared,
               kMachTime, timeout_ns);
}

void WakeAll(std::atomic<std::uint64_t>& word) {
  if (CanPark()) Found().wake(LowerHalf(word), sizeof(std::uint32_t), kShared);
}

#else

bool CanPark() { return false; }
void Park(std::atomic<std::uint64_t>&, std::uint64_t, std::uint64_t) {}
void WakeAll(std::atomic<std::uint64_t>&) {}

#endif

}  // namespace mlxcomm::meeting
