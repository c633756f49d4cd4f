// Makes a Connection: reaches the daemon, maps its memory, and meanwhile loads the module with the
// control calls.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/lib/clock.h"
#include "client/lib/connection.h"
#include "client/lib/own_process.h"
#include "client/lib/private_daemon.h"

namespace mlxcomm::client {
namespace {

constexpr std::uint64_t kConnectTimeoutNs = 10'000'000'000;
// Longer ones mean no limit, and would overflow.
constexpr std::uint64_t kConnectTimeoutMostNs = 86'400'000'000'000;

#if defined(__APPLE__)
constexpr char kModuleName[] = "libmlxcomm_attach.dylib";
#else
constexpr char kModuleName[] = "libmlxcomm_attach.so";
#endif

struct LoadedModule {
  const mlxcomm_attach_table* table = nullptr;
  std::string error;
};

// The process that loaded the module. A forked child does not have the module's threads, and its
// calls would wait for them forever.
std::atomic<int> g_loaded_by{0};

bool LoadedBeforeFork() {
  int loader = 0;
  return !g_loaded_by.compare_exchange_strong(loader, OwnProcess()) && loader != OwnProcess();
}

// Stays loaded: protobuf and its threads do not survive an unload.
LoadedModule LoadModule() {
  static const LoadedModule loaded = [] {
    LoadedModule module;
    const std::string folder = LibraryFolder();
    const std::string path = folder.empty() ? kModuleName : folder + "/" + kModuleName;
    void* const handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) {
      module.table = static_cast<const mlxcomm_attach_table*>(::dlsym(handle, kAttachTableSymbol));
    }
    if (module.table == nullptr) module.error = ::dlerror();
    return module;
  }();
  return loaded;
}

// Several settings may name a service's socket; a private daemon is only for callers that named
// none.
Failure Reach(const mlxcomm_connect_options& options, const Control& control, queue::Dialed& dialed,
              bool& is_private) {
  const std::uint64_t timeout_ns = std::min(
      options.timeout_ns == 0 ? kConnectTimeoutNs : options.timeout_ns, kConnectTimeoutMostNs);
  const std::uint64_t deadline_ns = NowNs() + timeout_ns;
  const auto left_ns = [&] { return deadline_ns - std::min(deadline_ns, NowNs()); };
  const auto interrupted = [&] { return control.IsInterrupted(); };
  const auto dial = [&](const std::string& path) {
    return queue::Dial(path, queue::ProcessRole::kClient, options.arena_bytes, left_ns(), dialed,
                       interrupted);
  };
  const std::string named = options.socket_path == nullptr ? "" : options.socket_path;
  const std::vector<std::string> candidates = queue::SocketCandidates(named);
  const std::string path = queue::PrivateSocketPath();
  // A private daemon that is ending with its last client may still accept a connection, or refuse
  // it.
  const auto has_ended = [&](const Failure& failure) {
    return failure.code == FailureCode::kUnavailable ||
           (failure.code == FailureCode::kDaemonStopping && is_private);
  };
  Failure failure;
  for (const std::string& candidate : candidates) {
    is_private = options.start_private_daemon != 0 && candidates.size() > 1 && candidate == path;
    failure = dial(candidate);
    if (!has_ended(failure)) return failure;
  }
  const bool one_was_named = candidates.size() == 1;
  if (one_was_named || options.start_private_daemon == 0) {
    failure.message += ". Start it (mlxcommd --config FILE)";
    if (one_was_named) {
      failure.message += named.empty() ? ", or unset MLXCOMM_SOCKET to get a private one"
                                       : ", or name no socket to get a private one";
    }
    return failure;
  }
  if (const char* const hosts = std::getenv("MLXCOMM_HOSTS");
      hosts != nullptr && std::string(hosts) != "1") {
    return {FailureCode::kUnavailable, kNoRank,
            "no mlxcommd runs on this machine, and this job's ranks are on " + std::string(hosts) +
                " hosts, which a private daemon cannot reach. Start mlxcommd as a service on each "
                "(mlxcommctl service install); mlxcommctl doctor says what is missing"};
  }
  for (;;) {
    failure = StartPrivateDaemon(path, left_ns(), interrupted);
    if (!failure.ok()) return failure;
    failure = dial(path);
    if (!has_ended(failure) || left_ns() == 0) return failure;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Failure Map(const queue::Dialed& dialed, Mapping& arena, Mapping& queue) {
  const std::uint64_t bytes = dialed.hello.arena_bytes;
  arena = MapShared(dialed.descriptors[0], bytes);
  int error = arena == nullptr ? errno : 0;
  queue = MapShared(dialed.descriptors[1], queue::kQueueSegmentBytes);
  if (error == 0 && queue == nullptr) error = errno;
  if (arena == nullptr || queue == nullptr) {
    return {FailureCode::kResourceExhausted, kNoRank,
            "cannot map an arena of " + std::to_string(bytes) + " bytes: " + std::strerror(error) +
                ". Ask for a smaller one (arena_bytes), or raise the limit of address space "
                "(ulimit -v)"};
  }
#if defined(MADV_HUGEPAGE)
  // Fewer page faults and TLB misses; a hint, if the system has huge pages.
  ::madvise(arena.get(), bytes, MADV_HUGEPAGE);
#endif
  const auto& header = *reinterpret_cast<const queue::QueueHeader*>(queue.get());
  if (header.magic == queue::kQueueMagic && header.version == queue::kQueueVersion) return {};
  return {FailureCode::kUnavailable, kNoRank,
          "the daemon's queue has another layout: install the same release of both"};
}

}  // namespace

Failure Connection::Open(const mlxcomm_connect_options& options, std::unique_ptr<Connection>& out) {
  if (LoadedBeforeFork()) {
    return Invalid(
        "this process was forked from one that had connected, and the connection's thread "
        "does not survive that: start it by exec instead (Python: multiprocessing's \"spawn\")");
  }
  // The module is loaded while the daemon answers the hello.
  std::future<LoadedModule> module = std::async(std::launch::async, LoadModule);
  Control control{.interrupt = {options.interrupted, options.interrupted_context}};
  queue::Dialed dialed;
  bool is_private = false;
  Failure failure = Reach(options, control, dialed, is_private);
  const LoadedModule loaded = module.get();
  if (!failure.ok()) return failure;
  Mapping arena;
  Mapping queue;
  failure = Map(dialed, arena, queue);
  if (failure.ok() && loaded.table == nullptr) {
    failure = {
        FailureCode::kInternal, kNoRank,
        "cannot load a part of the client library: " + loaded.error + ". Install mlxcomm again"};
  }
  if (!failure.ok()) {
    ::close(dialed.descriptors[2]);
    ::close(dialed.connection);
    return failure;
  }
  control.table = loaded.table;
  out.reset(new Connection(dialed, is_private, std::move(arena), std::move(queue), control));
  out->control_.attachment =
      loaded.table->open(dialed.connection, dialed.hello.token.data(), dialed.hello.token.size());
  return {};
}

}  // namespace mlxcomm::client
