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

// How often the daemon is asked whether a job that is forming has its other half under another name.
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
    control.table->awaited(control.attachment, 0, 0, kAskOtherHalfNs, control.interrupt,
                           text.data(), text.size(), &ended);
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

mlxcomm_group_listener ListenFor(GroupFacts& facts) {
  mlxcomm_group_listener listener{};
  listener.context = &facts;
  listener.group = [](void* context, const mlxcomm_group_told* reported) {
    auto& made = *static_cast<GroupFacts*>(context);
    made.id = reported->group;
    made.rank = reported->rank;
    made.timeout_default_ns = reported->timeout_default_ns;
    made.name = reported->name;
    made.members.reserve(reported->members);
  };
  listener.member = [](void* context, const char* node, std::uint64_t pid) {
    static_cast<GroupFacts*>(context)->members.push_back({node, pid});
  };
  return listener;
}

Failure OtherThanAsked(const char* what) {
  return {FailureCode::kInternal, kNoRank,
          std::string("the daemon made another group than was asked for (") + what +
              "): install the same release of both"};
}

std::string RemedyIfLost(bool is_private) {
  if (!is_private) return "Buffers stay readable; connect again once the daemon is back";
  return "Its log: " + queue::PrivateLogFile(queue::PrivateSocketPath()) +
         ". Buffers stay readable; connect again to start another";
}

}  // namespace

Connection::Connection(const queue::Dialed& dialed, bool is_private, Mapping arena, Mapping queue,
                       const Control& control)
    : creator_pid_(OwnProcess()),
      is_private_(is_private),
      scheduling_(queue::SchedulingPolicy::Choose(dialed.hello.scheduling, queue::UsableCores())),
      rendezvous_timeout_ns_(dialed.hello.rendezvous_timeout_ns),
      control_(control),
      arena_(std::move(arena)),
      queue_(std::move(queue), dialed.descriptors[2]),
      allocator_(arena_.get(), dialed.hello.arena_bytes,
                 static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)), &queue_.header().arena_pages),
      pages_(arena_.get(), scheduling_.waiting),
      calls_(queue_, pages_, allocator_, arena_.get(), scheduling_.waiting, control_,
             RemedyIfLost(is_private)) {}

Connection::~Connection() {
  // In a forked child the attachment's thread is the parent's; the rest is this process's too.
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

// After a call that makes a group.
Failure Connection::Made(int code, const mlxcomm_error& error) {
  if (code != MLXCOMM_OK) return {static_cast<FailureCode>(code), error.rank, error.message};
  calls_.TakePages();
  return {};
}

Failure Connection::Join(const char* job, std::uint32_t rank, std::uint32_t size,
                         std::uint64_t timeout_ns, const std::string& named_by, GroupFacts& facts) {
  mlxcomm_error error{};
  // Passed on, so that a daemon that does not answer at all is not waited for without an end.
  if (timeout_ns == 0) timeout_ns = rendezvous_timeout_ns_;
  const std::uint64_t now = NowNs();
  FormingReporter reporter{control_, job, now, now + kReportAfterNs,
                           named_by.empty() ? UINT64_MAX : now + kAskOtherHalfNs};
  const int code = control_.table->attach(
      control_.attachment, job, rank, size, timeout_ns, ProgramName().c_str(), named_by.c_str(),
      {FormingReporter::Asked, &reporter}, ListenFor(facts), &error);
  const bool is_other = code == MLXCOMM_OK && facts.members.size() != size;
  // The daemon may have let the process in just before it got the cancellation, or before another rank left.
  if (is_other || code == MLXCOMM_CANCELLED || code == MLXCOMM_RANK_LOST) Leave(nullptr);
  return is_other ? OtherThanAsked("its size") : Made(code, error);
}

Failure Connection::Split(const SplitCall& call, std::uint64_t timeout_ns, GroupFacts& facts) {
  mlxcomm_error error{};
  const int code = control_.table->split(control_.attachment, call.parent, call.number,
                                         call.ranks.data(), call.ranks.size(), call.name,
                                         timeout_ns, control_.interrupt, ListenFor(facts), &error);
  Failure failure = Made(code, error);
  if (!failure.ok()) return failure;
  if (facts.members.size() == call.ranks.size() && facts.rank == call.own_index) return {};
  Release(facts.id);
  return OtherThanAsked("its ranks");
}

Failure Connection::Shrink(std::uint64_t group, std::uint64_t timeout_ns, GroupFacts& facts) {
  mlxcomm_error error{};
  const int code = control_.table->shrink(control_.attachment, group, timeout_ns,
                                          control_.interrupt, ListenFor(facts), &error);
  Failure failure = Made(code, error);
  if (!failure.ok() || facts.rank < facts.members.size()) return failure;
  Release(facts.id);
  return OtherThanAsked("its ranks");
}

void Connection::Release(std::uint64_t group) {
  control_.table->release(control_.attachment, group);
  calls_.ForgetGroup(group);
}

void Connection::Leave(const char* why) {
  control_.table->detach(control_.attachment, why);
  calls_.ForgetGroups();
}

}  // namespace mlxcomm::client
