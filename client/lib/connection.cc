#include "client/lib/connection.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "client/lib/clock.h"
#include "client/lib/own_process.h"

namespace mlxcomm::client {
namespace {

// The daemon is asked this often whether a job that is forming has its other half under another
// name.
constexpr std::uint64_t kAskOtherHalfNs = 2'000'000'000;

// Reports now and then that a job is still forming; called each time the waiting thread wakes.
struct FormingReporter {
  const Control& control;
  const char* job;
  std::uint64_t began_ns;
  std::uint64_t report_ns;
  std::uint64_t ask_ns;

  void AskForOtherHalf(std::uint64_t now) {
    std::array<char, 1024> text{};
    int ended = 0;
    control.table->awaited(*control.attachment, 0, 0, kAskOtherHalfNs, control.interrupt, text,
                           ended);
    const bool found = text[0] != '\0';
    if (found && !IsQuiet()) std::fprintf(stderr, "mlxcomm: %s\n", text.data());
    ask_ns = now + (found ? kReportAgainNs : kAskOtherHalfNs);
  }

  static int Asked(void* context) {
    auto& self = *static_cast<FormingReporter*>(context);
    const std::uint64_t now = NowNs();
    if (now >= self.ask_ns) self.AskForOtherHalf(now);
    if (now >= self.report_ns && !IsQuiet()) {
      std::fprintf(stderr,
                   "mlxcomm: still waiting for other ranks of job %s (%llu s); mlxcommctl status "
                   "shows which "
                   "are missing\n",
                   self.job,
                   static_cast<unsigned long long>((now - self.began_ns) / 1'000'000'000));
    }
    if (now >= self.report_ns) self.report_ns = now + kReportAgainNs;
    return self.control.IsInterrupted() ? 1 : 0;
  }
};

std::string ProgramName() {
#if defined(__APPLE__)
  return ::getprogname();
#elif defined(__GLIBC__)
  return program_invocation_short_name;
#else
  return {};
#endif
}

Failure OtherThanAsked(const char* what) {
  return {FailureCode::kInternal, kNoRank,
          std::string("the daemon made a different group than requested (") + what +
              "): install the same release of both"};
}

std::string RemedyIfLost(bool is_private) {
  if (!is_private) return "Buffers stay readable; connect again once the daemon is back";
  return "Its log: " + queue::PrivateLogFile(queue::PrivateSocketPath()) +
         ". Buffers stay readable; connect again to start another";
}

queue::SchedulingPolicy SchedulingOf(const queue::DaemonHello& hello) {
  constexpr std::uint64_t kSpinMostNs = 40'000'000;  // The configuration's maximum.
  auto policy = queue::SchedulingPolicy::Choose(hello.scheduling, queue::UsableCores());
  const bool yields = hello.scheduling == queue::Scheduling::kFewCores;
  policy.keep_core_ns =
      yields ? 0 : std::min(hello.spin_ms * std::uint64_t{1'000'000}, kSpinMostNs);
  return policy;
}

}  // namespace

Connection::Connection(const queue::Dialed& dialed, bool is_private, Mapping arena, Mapping queue,
                       const Control& control)
    : creator_pid_(OwnProcess()),
      is_private_(is_private),
      scheduling_(SchedulingOf(dialed.hello)),
      rendezvous_timeout_ns_(dialed.hello.rendezvous_timeout_ns),
      control_(control),
      arena_(std::move(arena)),
      queue_(std::move(queue), dialed.descriptors[2]),
      allocator_(arena_.get(), dialed.hello.arena_bytes,
                 static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)), &queue_.header().arena_pages),
      pages_(arena_.get(), scheduling_),
      calls_(queue_, pages_, allocator_, arena_.get(), scheduling_.waiting, control_,
             RemedyIfLost(is_private)) {}

Connection::~Connection() {
  // In a forked child the attachment's thread belongs to the parent; the rest is this process's as
  // well.
  if (usable() && control_.attachment != nullptr) control_.table->close(control_.attachment);
}

void Connection::NoteCopiedResult(std::uint64_t bytes, std::uint64_t nanoseconds) {
  queue::CopiedResults& copied = queue_.header().copied_results;
  copied.results.fetch_add(1, std::memory_order_relaxed);
  copied.bytes.fetch_add(bytes, std::memory_order_relaxed);
  copied.nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

bool Connection::usable() const { return creator_pid_ == OwnProcess(); }

bool Connection::Contains(const void* data, std::uint64_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::uint64_t total = allocator_.total_bytes();
  if (first < arena_data() || first > arena_data() + total) return false;
  return bytes <= total - OffsetOf(data);
}

Failure Connection::Join(JoinCall call, GroupFacts& facts) {
  // Passed on, so that the wait for a daemon that does not answer at all has an end.
  if (call.timeout_ns == 0) call.timeout_ns = rendezvous_timeout_ns_;
  call.program = ProgramName();
  const std::uint64_t now = NowNs();
  FormingReporter reporter{control_, call.job, now, now + kReportAfterNs,
                           call.named_by.empty() ? UINT64_MAX : now + kAskOtherHalfNs};
  Failure failure = control_.table->attach(*control_.attachment, call,
                                           {FormingReporter::Asked, &reporter}, facts);
  const bool is_other = failure.ok() && facts.members.size() != call.size;
  // The daemon may have let the process in just before it got the cancellation, or before another
  // rank left.
  const bool may_be_in =
      failure.code == FailureCode::kCancelled || failure.code == FailureCode::kRankLost;
  if (is_other || may_be_in) Leave(nullptr);
  if (is_other) return OtherThanAsked("its size");
  if (failure.ok()) calls_.TakePages();
  return failure;
}

Failure Connection::Split(const SplitCall& call, GroupFacts& facts) {
  Failure failure = control_.table->split(*control_.attachment, call, control_.interrupt, facts);
  if (!failure.ok()) return failure;
  calls_.TakePages();
  if (facts.members.size() == call.ranks.size() && facts.rank == call.own_index) return {};
  Release(facts.id);
  return OtherThanAsked("its ranks");
}

Failure Connection::Shrink(std::uint64_t group, std::uint64_t timeout_ns, GroupFacts& facts) {
  Failure failure =
      control_.table->shrink(*control_.attachment, group, timeout_ns, control_.interrupt, facts);
  if (!failure.ok()) return failure;
  calls_.TakePages();
  if (facts.rank < facts.members.size()) return {};
  Release(facts.id);
  return OtherThanAsked("its ranks");
}

void Connection::Release(std::uint64_t group) {
  control_.table->release(*control_.attachment, group);
  calls_.ForgetGroup(group);
}

void Connection::Leave(const char* why) {
  control_.table->detach(*control_.attachment, why);
  calls_.ForgetGroups();
}

}  // namespace mlxcomm::client
