// A Mac's threads, folders and frameworks.
#include <pthread/qos.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// Quality of service decides, among other things, how late a timer may be; /proc shows a thread's.
// Linux passes it on to what a thread starts, macOS does not: it shows which thread it belongs to.
constexpr long kUserInitiatedSlackNs = 60'000;
constexpr long kThreadsApart = 10'000;

}  // namespace

extern "C" {

int pthread_set_qos_class_self_np(qos_class_t quality, int) {
  if (quality != QOS_CLASS_USER_INITIATED) return EINVAL;
  const long slack_ns = kUserInitiatedSlackNs + ::syscall(SYS_gettid) % kThreadsApart;
  return ::prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) == 0 ? 0 : errno;
}

void* __real_dlopen(const char* path, int mode);

void* __wrap_dlopen(const char* path, int mode) {
  const bool of_apple =
      path != nullptr && std::strncmp(path, "/System/Library/Frameworks/", 27) == 0;
  return __real_dlopen(of_apple ? MLXCOMM_DARWIN_FRAMEWORKS : path, mode);
}

size_t __real_confstr(int name, char* buffer, size_t length);

size_t __wrap_confstr(int name, char* buffer, size_t length) {
  if (name != _CS_DARWIN_USER_CACHE_DIR) return __real_confstr(name, buffer, length);
  const char* const named = std::getenv("MLXCOMM_DARWIN_USER_FOLDER");
  if (named == nullptr) return 0;
  const std::string folder(named);
  if (length > 0) {
    const size_t copied = folder.copy(buffer, length - 1);
    buffer[copied] = '\0';
  }
  return folder.size() + 1;
}
}
