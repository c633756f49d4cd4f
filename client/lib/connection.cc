#include "client/lib/connection.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "client/lib/private_daemon.h"
#include "proto/queue/doorbell.h"

namespace mlxcomm::client {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kConnectTimeoutNs = 10'000 * kMs;
// How often a sleeper looks up to ask whether it was interrupted.
constexpr std::uint64_t kLookUpNs = 50 * kMs;
// Beyond an operation's own deadline, which the daemon keeps.
constexpr std::uint64_t kAnswerMarginNs = 10'000 * kMs;
// Longer ones mean for ever, and would overflow.
constexpr std::uint64_t kConnectTimeoutMostNs = 86'400'000 * kMs;

#if defined(__APPLE__)
constexpr char kModuleName[] = "libmlxcomm_attach.dylib";
#else
constexpr char kModuleName[] = "libmlxcomm_attach.so";
#endif

struct LoadedModule {
  const mlxcomm_attach_table* table = nullptr;
  std::string error;
};

// The process that loaded gRPC, whose threads a forked child does not have: calls of
// the child would wait for them for ever.
std::atomic<int> g_loaded_by{0};

bool LoadedBeforeFork() {
  int nobody = 0;
  return !g_loaded_by.compare_exchange_strong(nobody, ::getpid()) && nobody != ::getpid();
}

// Stays loaded: gRPC's threads do not survive an unload.
LoadedModule LoadModule() {
  static const LoadedModule loaded = [] {
    LoadedModule module;
    const std::string folder = LibraryFolder();
    const std::string path = folder.empty() ? kModuleName : folder + "/" + kModuleName;
    void* const handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) {
      module.table = static_cast<const mlxcomm_attach_table*>(
          ::dlsym(handle, MLXCOMM_ATTACH_TABLE_SYMBOL));
    }
    if (module.table == nullptr) module.error = ::dlerror();
    return module;
  }();
  return loaded;
}

std::string ProgramName() {
#if defined(__APPLE__)
  return ::getprogname();
#elif defined(__GLIBC__)
  return program_invocation_short_name;
#else
  return {};
#endif
}

}  // namespace

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Connection::Connection(mlxcomm_interrupt interrupt)
    : creator_pid_(::getpid()),
      interrupt_(interrupt),
      spin_ns_(std::thread::hardware_concurrency() <= 4 ? 10'000 : 50'000) {}

Failure Connection::Open(const mlxcomm_connect_options& options,
                         std::unique_ptr<Connection>& out) {
  if (LoadedBeforeFork()) {
    return {FailureCode::kInvalidArgument, kNoRank,
            "this process was forked from one that had connected, and gRPC does not survive "
            "that: start it by exec instead (Python: multiprocessing's \"spawn\")"};
  }
  // gRPC is loaded while the daemon answers the hello.
  std::future<LoadedModule> module = std::async(std::launch::async, LoadModule);
  std::unique_ptr<Connection> connection(
      new Connection({options.interrupted, options.interrupted_context}));
  queue::Dialed dialed;
  Failure failure = connection->Reach(options, dialed);
  const LoadedModule loaded = module.get();
  if (failure.ok()) failure = connection->Map(dialed);
  if (failure.ok() && loaded.table == nullptr) {
    failure = {FailureCode::kInternal, kNoRank,
               "cannot load gRPC for the client library: " + loaded.error +
                   ". Install mlxcomm again"};
  }
  if (!failure.ok()) {
    if (dialed.connection >= 0) ::close(dialed.connection);
    return failure;
  }
  connection->attach_ = loaded.table;
  connection->attachment_ = loaded.table->open(dialed.connection, dialed.hello.token.data(),
                                               dialed.hello.token.size());
  out = std::move(connection);
  return {};
}

// A service's socket may be named by several; a private daemon is only for those who
// named none.
Failure Connection::Reach(const mlxcomm_connect_options& options, queue::Dialed& dialed) {
  const std::uint64_t timeout_ns = std::min(
      options.timeout_ns == 0 ? kConnectTimeoutNs : options.timeout_ns, kConnectTimeoutMostNs);
  const std::uint64_t deadline_ns = NowNs() + timeout_ns;
  const auto left_ns = [&] { return deadline_ns - std::min(deadline_ns, NowNs()); };
  const auto interrupted = [this] { return Interrupted(); };
  const auto dial = [&](const std::string& path) {
    return queue::Dial(path, queue::ProcessRole::kClient, options.arena_bytes, left_ns(), dialed,
                       interrupted);
  };
  const std::string named = options.socket_path == nullptr ? "" : options.socket_path;
  const std::vector<std::string> candidates = queue::SocketCandidates(named);
  Failure failure;
  for (const std::string& candidate : candidates) {
    failure = dial(candidate);
    if (failure.code != FailureCode::kUnavailable) return failure;
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
  // One that is ending with its last client may still take a connection: try again.
  const std::string path = queue::PrivateSocketPath();
  for (;;) {
    failure = StartPrivateDaemon(path, left_ns(), interrupted);
    if (!failure.ok()) return failure;
    failure = dial(path);
    if (failure.code != FailureCode::kUnavailable || left_ns() == 0) return failure;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Failure Connection::Map(queue::Dialed& dialed) {
  arena_bytes_ = dialed.hello.arena_bytes;
  void* const arena = ::mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED,
                             dialed.descriptors[0], 0);
  int error = arena == MAP_FAILED ? errno : 0;
  void* const queue = ::mmap(nullptr, queue::kQueueSegmentBytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED, dialed.descriptors[1], 0);
  if (error == 0 && queue == MAP_FAILED) error = errno;
  doorbell_ = dialed.descriptors[2];
  ::close(dialed.descriptors[0]);
  ::close(dialed.descriptors[1]);
  if (arena != MAP_FAILED) arena_ = static_cast<std::byte*>(arena);
  if (queue != MAP_FAILED) queue_ = static_cast<std::byte*>(queue);
  if (arena_ == nullptr || queue_ == nullptr) {
    return {FailureCode::kResourceExhausted, kNoRank,
            "cannot map an arena of " + std::to_string(arena_bytes_) + " bytes: " +
                std::strerror(error) +
                ". Ask for a smaller one (arena_bytes), or raise the limit of address space "
                "(ulimit -v)"};
  }
  auto* const header = reinterpret_cast<queue::QueueHeader*>(queue_);
  if (header->magic != queue::kQueueMagic || header->version != queue::kQueueVersion) {
    return {FailureCode::kUnavailable, kNoRank,
            "the daemon's queue has another layout: install the same release of both"};
  }
  submissions_.emplace(
      &header->submissions,
      reinterpret_cast<queue::SubmissionEntry*>(queue_ + queue::kSubmissionsOffset),
      queue::kSubmissionSlots);
  completions_.emplace(
      &header->completions,
      reinterpret_cast<const queue::CompletionEntry*>(queue_ + queue::kCompletionsOffset),
      queue::kCompletionSlots);
  allocator_ = std::make_unique<ArenaAllocator>(
      arena_, arena_bytes_, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  return {};
}

Connection::~Connection() {
  // In a forked child gRPC is the parent's; the rest is ours as well.
  if (usable() && attachment_ != nullptr) attach_->close(attachment_);
  if (doorbell_ >= 0) ::close(doorbell_);
  if (queue_ != nullptr) ::munmap(queue_, queue::kQueueSegmentBytes);
  if (arena_ != nullptr) ::munmap(arena_, arena_bytes_);
}

bool Connection::usable() const { return creator_pid_ == ::getpid(); }

bool Connection::Contains(const void* data, std::uint64_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  if (first < arena_ || first > arena_ + arena_bytes_) return false;
  return bytes <= arena_bytes_ - static_cast<std::uint64_t>(first - arena_);
}

Failure Connection::Join(const char* job, std::uint32_t rank, std::uint32_t size,
                         std::uint64_t timeout_ns, mlxcomm_attached& attached) {
  mlxcomm_error error{};
  const int code = attach_->attach(attachment_, job, rank, size, timeout_ns,
                                   ProgramName().c_str(), interrupt_, &attached, &error);
  if (code == MLXCOMM_OK) return {};
  return {static_cast<FailureCode>(code), error.rank, error.message};
}

void Connection::Leave() { attach_->detach(attachment_); }

bool Connection::Interrupted() const {
  return interrupt_.interrupted != nullptr && interrupt_.interrupted(interrupt_.context) != 0;
}

// With no bytes there is nothing to hold: offset 0 may be anybody's.
Failure Connection::PinRanges(const queue::SubmissionEntry& entry, Extent extent,
                              Pending& pending) {
  const auto refused = [](const char* name) {
    return Failure{FailureCode::kInvalidArgument, kNoRank,
                   std::string(name) + ": expected memory of one buffer that has not been freed "
                                       "(mlxcomm_buffer_allocate)"};
  };
  pending.input_offset = entry.input_offset;
  pending.output_offset = entry.output_offset;
  if (extent.input_bytes > 0) {
    if (!allocator_->Pin(entry.input_offset, extent.input_bytes)) return refused("input");
    pending.reads = true;
  }
  if (extent.output_bytes > 0) {
    if (!allocator_->Pin(entry.output_offset, extent.output_bytes)) {
      UnpinRanges(pending);
      return refused("output");
    }
    pending.writes = true;
  }
  return {};
}

void Connection::UnpinRanges(const Pending& pending) {
  if (pending.reads) allocator_->Unpin(pending.input_offset);
  if (pending.writes) allocator_->Unpin(pending.output_offset);
}

Failure Connection::Submit(queue::SubmissionEntry& entry, Extent extent, std::uint64_t timeout_ns,
                           std::uint64_t& ticket) {
  const std::lock_guard order(submit_mutex_);
  {
    const std::lock_guard lock(wait_mutex_);
    if (!lost_.ok()) return lost_;
    if (pending_.size() >= kInFlightMax && !reader_present_) TakeCompletions();
    if (pending_.size() >= kInFlightMax) {
      return {FailureCode::kResourceExhausted, kNoRank,
              std::to_string(kInFlightMax) +
                  " operations are in flight: wait for some before submitting more"};
    }
    // Pinned before anybody can settle it.
    Pending pending;
    if (Failure failure = PinRanges(entry, extent, pending); !failure.ok()) return failure;
    pending.deadline_ns = NowNs() + timeout_ns + kAnswerMarginNs;
    ticket = next_ticket_++;
    pending_[ticket] = std::move(pending);
  }
  entry.ticket = ticket;
  // Never full: there are more slots than operations may be in flight.
  if (submissions_->Push(entry) != queue::RingResult::kDone) {
    const std::lock_guard lock(wait_mutex_);
    pending_.erase(ticket);
    LoseDaemon("its queue is corrupt");
    return lost_;
  }
  if (submissions_->ConsumerSleeps()) queue::RingDoorbell(doorbell_);
  return {};
}

void Connection::Settle(const queue::CompletionEntry& entry) {
  const auto found = pending_.find(entry.ticket);
  if (found == pending_.end()) return;
  Outcome outcome;
  outcome.group_failed = entry.group_failed != 0;
  const auto code = static_cast<FailureCode>(entry.failure_code);
  outcome.failure.code = IsValid(code) ? code : FailureCode::kInternal;
  outcome.failure.rank = entry.rank_at_fault;
  outcome.failure.message.assign(entry.message, entry.message_bytes);
  if (!found->second.outcome.has_value()) {
    UnpinRanges(found->second);
    found->second.outcome = std::move(outcome);
  }
  if (found->second.abandoned) pending_.erase(found);
  settled_.notify_all();  // It may be another thread's.
}

void Connection::TakeCompletions() {
  queue::CompletionEntry entry;
  for (;;) {
    switch (completions_->Pop(entry)) {
      case queue::RingResult::kNothing: return;
      case queue::RingResult::kCorrupt: return LoseDaemon("its queue is corrupt");
      case queue::RingResult::kDone: Settle(entry);
    }
  }
}

void Connection::LoseDaemon(const std::string& why) {
  if (!lost_.ok()) return;
  lost_ = {FailureCode::kDaemonLost, kNoRank,
           "the connection to mlxcommd is lost: " + why +
               ". Buffers stay readable; connect anew once the daemon is back"};
  for (auto& [ticket, pending] : pending_) {
    if (!pending.outcome.has_value()) pending.outcome = Outcome{lost_, true};
  }
  std::erase_if(pending_, [](const auto& entry) { return entry.second.abandoned; });
  settled_.notify_all();
}

// Reads completions, or sleeps until there may be some. Returns with the lock held.
void Connection::ReadOrSleep(std::unique_lock<std::mutex>& lock, std::uint64_t until_ns) {
  const std::uint64_t now = NowNs();
  if (now >= until_ns) return;
  if (reader_present_) {  // The ring is its alone until it comes back.
    settled_.wait_for(lock, std::chrono::nanoseconds(std::min(until_ns - now, kLookUpNs)));
    return;
  }
  reader_present_ = true;
  lock.unlock();
  queue::DoorbellState state = queue::DoorbellState::kSilent;
  if (completions_->PrepareToSleep()) {
    state = queue::WaitForDoorbell(doorbell_, std::min(until_ns - now, kLookUpNs));
    completions_->WakeUp();
  }
  lock.lock();
  reader_present_ = false;
  TakeCompletions();
  if (state == queue::DoorbellState::kOtherSideGone) LoseDaemon("it has ended");
  settled_.notify_all();
}

Connection::Outcome Connection::Wait(std::uint64_t ticket) {
  const std::uint64_t spin_end = NowNs() + spin_ns_;
  std::unique_lock lock(wait_mutex_);
  for (;;) {
    const auto found = pending_.find(ticket);
    if (found == pending_.end() || found->second.abandoned) {
      return {{FailureCode::kInvalidArgument, kNoRank,
               "ticket " + std::to_string(ticket) + ": not in flight; each is waited for once"},
              false};
    }
    if (!found->second.outcome.has_value() && !reader_present_) TakeCompletions();
    if (found->second.outcome.has_value()) {
      Outcome outcome = *std::move(found->second.outcome);
      pending_.erase(found);
      return outcome;
    }
    const std::uint64_t now = NowNs();
    if (now >= found->second.deadline_ns) {
      LoseDaemon("it does not answer");
      continue;
    }
    if (now < spin_end) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      continue;
    }
    const std::uint64_t deadline_ns = found->second.deadline_ns;
    ReadOrSleep(lock, deadline_ns);
    lock.unlock();
    const bool interrupted = Interrupted();
    lock.lock();
    const auto again = pending_.find(ticket);
    if (!interrupted || again == pending_.end() || again->second.outcome.has_value()) continue;
    // The operation goes on; its buffers are held until it has ended.
    again->second.abandoned = true;
    return {{FailureCode::kCancelled, kNoRank, "interrupted while waiting for an operation"},
            true};
  }
}

}  // namespace mlxcomm::client
