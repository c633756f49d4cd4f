// Uses IOKit through dlopen, so that the daemon need not link any framework.
#include "daemon/platform/power.h"

#include <dlfcn.h>
#include <pthread.h>
#include <pthread/qos.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

namespace mlxcomm::platform {
namespace {

// These match <CoreFoundation/CFString.h> and <IOKit/pwr_mgt/IOPMLib.h>.
constexpr std::uint32_t kUtf8 = 0x08000100;
constexpr std::uint32_t kLevelOn = 255;
constexpr std::uint32_t kNoAssertion = 0;

struct PowerManagement {
  const void* (*make_text)(const void* allocator, const char* text, std::uint32_t encoding);
  void (*release_text)(const void* text);
  int (*create)(const void* type, std::uint32_t level, const void* name, std::uint32_t* id);
  int (*release)(std::uint32_t id);

  bool Load() {
    void* const kit = ::dlopen("/System/Library/Frameworks/IOKit.framework/IOKit", RTLD_LAZY);
    void* const core =
        ::dlopen("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation", RTLD_LAZY);
    if (kit == nullptr || core == nullptr) return false;
    return Find(core, "CFStringCreateWithCString", make_text) &&
           Find(core, "CFRelease", release_text) &&
           Find(kit, "IOPMAssertionCreateWithName", create) &&
           Find(kit, "IOPMAssertionRelease", release);
  }
  template <typename Function>
  static bool Find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }
  // Returns kNoAssertion if the system refuses.
  std::uint32_t Hold() const {
    const void* const type = make_text(nullptr, "PreventUserIdleSystemSleep", kUtf8);
    const void* const name = make_text(nullptr, "mlxcommd: a job runs", kUtf8);
    std::uint32_t id = kNoAssertion;
    if (type != nullptr && name != nullptr && create(type, kLevelOn, name, &id) != 0) {
      id = kNoAssertion;
    }
    if (type != nullptr) release_text(type);
    if (name != nullptr) release_text(name);
    return id;
  }
};

}  // namespace

struct SleepGuard::Keeper {
  Keeper() : thread([this] { Run(); }) {}
  ~Keeper() {
    Set([this] { over = true; });
    thread.join();
  }
  template <typename Change>
  void Set(Change change) {
    {
      const std::lock_guard lock(mutex);
      change();
    }
    changed.notify_one();
  }
  void Run() {
    PowerManagement power{};
    const bool loaded = power.Load();
    std::uint32_t held = kNoAssertion;
    bool done = false;  // The last state that was requested of the system.
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return over || wanted != done; });
      done = wanted && !over;
      const bool ends = over;
      lock.unlock();
      if (loaded && done && held == kNoAssertion) held = power.Hold();
      if (!done && held != kNoAssertion) {
        power.release(held);
        held = kNoAssertion;
      }
      if (ends) return;
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool wanted = false;
  bool over = false;
  std::thread thread;  // Last: it uses the others.
};

void RaiseThreadPriority() { ::pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0); }

SleepGuard::SleepGuard() = default;
SleepGuard::~SleepGuard() = default;

void SleepGuard::Want(bool awake) {
  if (keeper_ == nullptr) {
    if (!awake) return;
    try {
      keeper_ = std::make_unique<Keeper>();
    } catch (const std::system_error&) {
      return;  // Retried with the next job.
    }
  }
  keeper_->Set([this, awake] { keeper_->wanted = awake; });
}

}  // namespace mlxcomm::platform
