// Loaded into a daemon or a rank (LD_PRELOAD): while armed, the threads that it has started itself
// (loop, workers, rails; not gRPC's) may not allocate, wait for a lock or write to a stream. The
// first violation ends the process and reports the place.
//
//   MLXCOMM_GUARD=FILE    armed while the first byte of FILE is not '0'
//   MLXCOMM_GUARD_SPARES=LIBRARY  allocations by this library's own code are allowed
//
// Taking a free lock needs a few nanoseconds, and asio's loop takes its own each turn; only waiting
// for another thread counts.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

const volatile char* g_flag = nullptr;
std::uintptr_t g_spared_begin = 0;
std::uintptr_t g_spared_end = 0;
thread_local bool t_watched = false;
thread_local bool t_inside = false;

template <typename Function>
Function Next(Function, const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The flag is read for every call, so that threads need no message.
bool Armed() { return t_watched && !t_inside && g_flag != nullptr && *g_flag != '0'; }

[[noreturn]] void Violated(const char* what) {
  t_inside = true;
  void* frames[24];
  const int count = ::backtrace(frames, 24);
  char line[64];
  const int bytes = std::snprintf(line, sizeof line, "hot path guard: %s\n", what);
  (void)!::write(STDERR_FILENO, line, static_cast<std::size_t>(bytes));
  ::backtrace_symbols_fd(frames, count, STDERR_FILENO);
  (void)!::write(STDERR_FILENO, "hot path guard: end\n", 20);
  std::abort();
}

void Watch(const char* what) {
  if (Armed()) Violated(what);
}

bool IsSpared(void* caller) {
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  return at >= g_spared_begin && at < g_spared_end;
}

// The addresses of the library of that name.
int FindSpared(dl_phdr_info* object, std::size_t, void* name) {
  if (std::strstr(object->dlpi_name, static_cast<const char*>(name)) == nullptr) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    g_spared_begin = object->dlpi_addr + part.p_vaddr;
    g_spared_end = g_spared_begin + part.p_memsz;
  }
  return 1;
}

__attribute__((constructor)) void Begin() {
  void* frames[4];
  ::backtrace(frames, 4);  // Loads what it needs, which allocates.
  if (char* const library = std::getenv("MLXCOMM_GUARD_SPARES")) {
    ::dl_iterate_phdr(FindSpared, library);
  }
  const char* const path = std::getenv("MLXCOMM_GUARD");
  const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const flag = ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, file, 0);
  if (flag != MAP_FAILED) g_flag = static_cast<const volatile char*>(flag);
  ::close(file);
}

struct Started {
  void* (*run)(void*);
  void* argument;
  bool watched;
};

void* RunStarted(void* given) {
  const Started started = *static_cast<Started*>(given);
  std::free(given);
  t_watched = started.watched;
  return started.run(started.argument);
}

// std::thread passes on an object whose class is defined where the thread was started: in the
// program for its own threads, otherwise in a library.
bool IsOfTheProgram(void* argument) {
  Dl_info program{};
  Dl_info object{};
  void* const entry = reinterpret_cast<void*>(::getauxval(AT_ENTRY));
  return argument != nullptr && ::dladdr(*static_cast<void**>(argument), &object) != 0 &&
         ::dladdr(entry, &program) != 0 && program.dli_fbase == object.dli_fbase;
}

}  // namespace

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  if (!IsSpared(__builtin_return_address(0))) Watch("malloc");
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  if (!IsSpared(__builtin_return_address(0))) Watch("calloc");
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  if (!IsSpared(__builtin_return_address(0))) Watch("realloc");
  return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  Watch("memalign");
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  Watch("aligned_alloc");
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  Watch("posix_memalign");
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto next = Next(&pthread_mutex_lock, "pthread_mutex_lock");
  if (Armed()) {
    if (::pthread_mutex_trylock(mutex) == 0) return 0;
    Violated("waits for a mutex");
  }
  return next(mutex);
}

std::size_t fwrite(const void* data, std::size_t size, std::size_t count, FILE* file) {
  static const auto next = Next(&fwrite, "fwrite");
  Watch("fwrite");
  return next(data, size, count, file);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  static const auto next = Next(&pthread_create, "pthread_create");
  auto* const started = static_cast<Started*>(std::malloc(sizeof(Started)));
  if (started == nullptr) return EAGAIN;
  *started = {run, argument, IsOfTheProgram(argument)};
  const int error = next(thread, attributes, RunStarted, started);
  if (error != 0) std::free(started);
  return error;
}

}  // extern "C"
