// Ranks that end at every instruction of an operation on the shared page (proto/meeting/README.md),
// and the errors of the others.
//
//   meeting_attack SOCKET step FIRST LAST STRIDE kill|stop
//       For each number of instructions in [FIRST, LAST] by STRIDE: three ranks all_reduce
//       endlessly; each in turn single-steps that many instructions of its next operation, and is
//       killed there, or stopped for a while and continued.
//   meeting_attack SOCKET scribble SEED [UID OTHER_UID]
//       One rank writes random bytes all over the page that it shares with the others, while
//       another job computes: another user's, if there are numbers.
//
// Jobs alternate: 8 bytes, which fit into a slot, or 4096, in a cell; with a ticket, or in one call
// (FormOf). After a kill, both survivors must report the same number of successful operations, and
// the rank that was lost. Every value is checked. The last line reports how much was done.
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "client/lib/mlxcomm.h"

namespace {

constexpr std::uint32_t kRanks = 3;
// By then the ranks meet directly.
constexpr std::uint64_t kWarmUp = 40;
constexpr std::uint64_t kAfterStop = 40;
constexpr std::uint64_t kElementsMax = 512;

// How a job calls its operations.
struct Form {
  std::uint64_t elements = 1;
  bool has_ticket = true;
};
Form FormOf(std::uint64_t job) { return {job % 4 < 2 ? 1 : kElementsMax, job % 2 == 0}; }

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::_Exit(1);
}

void Demand(bool fine, const std::string& what) {
  if (!fine) Die(what + ": " + std::strerror(errno));
}

// A rank's report to its parent when it ends.
struct Verdict {
  std::uint64_t done = 0;  // Successful operations.
  std::int32_t code = 0;
  std::int32_t rank_at_fault = 0;
  std::uint64_t wrong = 0;  // Values.
  char message[256] = {};
};

struct Orders {
  const char* socket = "";
  std::string job;
  std::uint32_t rank = 0;
  std::uint32_t size = kRanks;
  std::uint64_t most = UINT64_MAX;  // This many operations, then it leaves.
  bool is_victim = false;  // Waits for its tracer before the first operation after kWarmUp.
  bool scribbles = false;
  std::uint64_t seed = 0;
  std::uint64_t timeout_ns = 0;  // An operation's; 0 means none.
  Form form;
  uid_t user = 0;  // 0 means the program's.
};

std::vector<std::pair<std::byte*, std::byte*>> PagesHere() {
  std::vector<std::pair<std::byte*, std::byte*>> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("mlxcomm-page") == std::string::npos) continue;
    void* first = nullptr;
    void* end = nullptr;
    if (std::sscanf(line.c_str(), "%p-%p", &first, &end) != 2) continue;
    found.emplace_back(static_cast<std::byte*>(first), static_cast<std::byte*>(end));
  }
  return found;
}

void Scribble(std::mt19937_64& random) {
  for (const auto& [first, end] : PagesHere()) {
    for (int n = 0; n < 20'000; ++n) {
      volatile std::byte* const at = first + random() % static_cast<std::uint64_t>(end - first);
      *at = static_cast<std::byte>(random());
    }
  }
}

void Compute(const Orders& orders, Verdict& verdict) {
  mlxcomm_error error{};
  const auto note = [&](mlxcomm_code code) {
    verdict.code = static_cast<std::int32_t>(code);
    verdict.rank_at_fault = error.rank;
    std::snprintf(verdict.message, sizeof verdict.message, "%s", error.message);
    return code != MLXCOMM_OK;
  };
  mlxcomm_connect_options options{};
  options.struct_size = sizeof options;
  options.socket_path = orders.socket;
  options.arena_bytes = 1 << 20;
  mlxcomm_connection* connection = nullptr;
  mlxcomm_group* world = nullptr;
  void* input = nullptr;
  void* output = nullptr;
  if (note(mlxcomm_connect(&options, &connection, &error))) return;
  if (note(mlxcomm_join(connection, orders.job.c_str(), orders.rank, orders.size, 0, &world,
                        &error)) ||
      note(mlxcomm_buffer_allocate(connection, kElementsMax * 8, &input, &error)) ||
      note(mlxcomm_buffer_allocate(connection, kElementsMax * 8, &output, &error))) {
    return;
  }
  auto* const brought = static_cast<std::int64_t*>(input);
  const auto* const got = static_cast<const std::int64_t*>(output);
  std::mt19937_64 random(orders.seed);
  while (verdict.done < orders.most) {
    const auto value = static_cast<std::int64_t>(verdict.done * 8);
    std::fill_n(brought, orders.form.elements, value + orders.rank);
    if (orders.is_victim && verdict.done == kWarmUp) ::raise(SIGTRAP);
    if (orders.scribbles && verdict.done >= kWarmUp) Scribble(random);
    std::uint64_t ticket = 0;
    if (note(mlxcomm_all_reduce(world, input, output, orders.form.elements, MLXCOMM_INT64,
                                MLXCOMM_SUM, orders.timeout_ns,
                                orders.form.has_ticket ? &ticket : nullptr, &error)) ||
        (orders.form.has_ticket && note(mlxcomm_wait(world, ticket, &error)))) {
      return;
    }
    const std::int64_t size = orders.size;
    const std::int64_t sum = size * value + size * (size - 1) / 2;
    verdict.wrong += static_cast<std::uint64_t>(std::count_if(
        got, got + orders.form.elements, [&](std::int64_t one) { return one != sum; }));
    ++verdict.done;
  }
  mlxcomm_group_close(world);
  mlxcomm_disconnect(connection);
}

struct Rank {
  pid_t pid = -1;
  int reported = -1;
};

Rank Start(const Orders& orders) {
  int ends[2];
  Demand(::pipe(ends) == 0, "pipe");
  const pid_t pid = ::fork();
  Demand(pid >= 0, "fork");
  if (pid == 0) {
    if (orders.is_victim) ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    Verdict verdict;
    if (orders.user != 0) {
      Demand(::setgid(orders.user) == 0 && ::setuid(orders.user) == 0, "to become another user");
    }
    Compute(orders, verdict);
    const bool reported = ::write(ends[1], &verdict, sizeof verdict) == sizeof verdict;
    std::_Exit(reported ? 0 : 1);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

// False if it has ended without a report.
bool Hear(Rank& rank, Verdict& verdict) {
  const bool reported = ::read(rank.reported, &verdict, sizeof verdict) == sizeof verdict;
  ::close(rank.reported);
  int status = 0;
  ::waitpid(rank.pid, &status, 0);
  return reported;
}

std::string Text(const Verdict& verdict) {
  return std::to_string(verdict.done) + " operations, code " + std::to_string(verdict.code) +
         ", rank " + std::to_string(verdict.rank_at_fault) + ", " + std::to_string(verdict.wrong) +
         " wrong values: " + verdict.message;
}

// Both survivors of the victim, which was killed.
void CheckSurvivors(std::vector<Rank>& ranks, std::uint32_t victim, const std::string& when) {
  std::vector<Verdict> verdicts;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    Verdict verdict;
    const bool reported = Hear(ranks[rank], verdict);
    if (rank == victim) continue;
    if (!reported) Die(when + ": rank " + std::to_string(rank) + " ended without a word");
    const bool fine = verdict.code == MLXCOMM_RANK_LOST && verdict.wrong == 0 &&
                      verdict.rank_at_fault == static_cast<std::int32_t>(victim);
    if (!fine) Die(when + ": rank " + std::to_string(rank) + " says " + Text(verdict));
    verdicts.push_back(verdict);
  }
  if (verdicts[0].done != verdicts[1].done) {
    Die(when + ": one survivor says " + Text(verdicts[0]) + "; the other says " +
        Text(verdicts[1]));
  }
}

// Lets the stopped rank execute that many instructions. False if it has ended.
bool Step(pid_t pid, std::uint64_t instructions) {
  for (std::uint64_t n = 0; n < instructions; ++n) {
    if (::ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0) return false;
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return false;
  }
  return true;
}

void StepAndEnd(const char* socket, std::uint64_t instructions, bool kills) {
  const auto victim_rank = static_cast<std::uint32_t>(instructions % kRanks);
  const std::string when = std::to_string(instructions) + " instructions";
  std::vector<Rank> ranks;
  Orders orders;
  orders.socket = socket;
  orders.job = "step-" + std::to_string(::getpid()) + "-" + std::to_string(instructions);
  orders.form = FormOf(instructions);
  if (!kills) orders.most = kWarmUp + kAfterStop;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    orders.rank = rank;
    orders.is_victim = rank == victim_rank;
    ranks.push_back(Start(orders));
  }
  const pid_t victim = ranks[victim_rank].pid;
  int status = 0;
  for (;;) {
    Demand(::waitpid(victim, &status, 0) == victim, "waitpid");
    if (!WIFSTOPPED(status)) Die(when + ": the rank ended before its time");
    if (WSTOPSIG(status) == SIGTRAP) break;
    ::ptrace(PTRACE_CONT, victim, nullptr, WSTOPSIG(status));
  }
  if (!Step(victim, instructions)) Die(when + ": the rank ended meanwhile");
  if (kills) {
    ::kill(victim, SIGKILL);
    CheckSurvivors(ranks, victim_rank, when);
    return;
  }
  // Stopped for long enough that the others ask the daemon.
  ::ptrace(PTRACE_DETACH, victim, nullptr, SIGSTOP);
  ::usleep(80'000);
  ::kill(victim, SIGCONT);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    Verdict verdict;
    const bool reported = Hear(ranks[rank], verdict);
    if (!reported || verdict.code != MLXCOMM_OK || verdict.wrong != 0 ||
        verdict.done != orders.most) {
      Die(when + ", then stopped: rank " + std::to_string(rank) + " says " + Text(verdict));
    }
  }
}

int StepAll(const char* socket, char** words) {
  const std::uint64_t first = std::strtoull(words[0], nullptr, 10);
  const std::uint64_t last = std::strtoull(words[1], nullptr, 10);
  const std::uint64_t stride = std::strtoull(words[2], nullptr, 10);
  const bool kills = std::strcmp(words[3], "kill") == 0;
  std::uint64_t cases = 0;
  for (std::uint64_t n = first; n <= last; n += stride, ++cases) StepAndEnd(socket, n, kills);
  std::printf("fine: %llu cases\n", static_cast<unsigned long long>(cases));
  return 0;
}

int ScribbleOverPages(const char* socket, std::uint64_t seed, uid_t user, uid_t other_user) {
  std::vector<Rank> victims;
  std::vector<Rank> others;
  Orders orders;
  orders.socket = socket;
  orders.most = 2'000;
  orders.job = "others-" + std::to_string(::getpid());
  orders.user = other_user;
  orders.size = 2;
  for (orders.rank = 0; orders.rank < orders.size; ++orders.rank) others.push_back(Start(orders));
  orders.job = "victims-" + std::to_string(::getpid());
  orders.user = user;
  orders.size = kRanks;
  orders.seed = seed;
  orders.timeout_ns = 2'000'000'000;
  for (orders.rank = 0; orders.rank < orders.size; ++orders.rank) {
    orders.scribbles = orders.rank == kRanks - 1;
    victims.push_back(Start(orders));
  }
  for (Rank& rank : others) {
    Verdict verdict;
    if (!Hear(rank, verdict) || verdict.code != MLXCOMM_OK || verdict.wrong != 0) {
      Die("a rank of another job says " + Text(verdict));
    }
  }
  // Whatever their errors are, they end.
  std::uint64_t reported = 0;
  for (Rank& rank : victims) {
    Verdict verdict;
    if (Hear(rank, verdict)) ++reported;
  }
  std::printf("fine: the other job was exact, %llu of %u ranks ended by themselves\n",
              static_cast<unsigned long long>(reported), kRanks);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 2 ? words[2] : "";
  if (mode == "step" && count == 7) return StepAll(words[1], words + 3);
  if (mode == "scribble" && (count == 4 || count == 6)) {
    const auto user_of = [&](int word) {
      return count == 6 ? static_cast<uid_t>(std::strtoul(words[word], nullptr, 10)) : 0;
    };
    return ScribbleOverPages(words[1], std::strtoull(words[3], nullptr, 10), user_of(4),
                             user_of(5));
  }
  std::fprintf(stderr, "meeting_attack SOCKET step|scribble ...; see its beginning\n");
  return 2;
}
