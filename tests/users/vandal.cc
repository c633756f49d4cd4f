// vandal SOCKET WHAT [WHERE]: a job of two ranks in one process, without the library, whose rank 0
// misuses its shared memory or its doorbell, perhaps during an operation. Prints the fate of both
// ranks: "rank 0: its session ended", "rank 1: RANK_LOST ...".
//
//   sizes              sizes and seals of both segments are changed: every attempt must fail
//   scribbles SEED     random words all over both segments while operations run, until that ends
//                      its session
//   holes              the arena is unmapped and loses its pages in the middle of operations
//   doorbell PHASE     closed: hello, joining, running, leaving
//   flood WHAT [N]     `calls` that fail, or `rings` without a call, of 16 more sessions, as fast
//                      as they are taken: N thousand in all, or until it is ended
//   positions WHICH    of the queue, while an operation runs: ahead, back, minus, completions,
//                      header
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/users/raw_client.h"

namespace {

using namespace mlxcomm;  // NOLINT: a program.

constexpr std::uint64_t kArenaBytes = 1 << 24;
constexpr std::uint64_t kInputBytes = 1 << 22;

class Job {
 public:
  explicit Job(const char* socket) {
    for (auto& rank : ranks_) {
      Failure failure;
      rank = RawClient::Dial(socket, kArenaBytes, failure);
      if (rank != nullptr) continue;
      std::printf("hello: %s %s\n", FailureCodeName(failure.code), failure.message.c_str());
      std::exit(3);
    }
  }
  RawClient& rank(std::uint32_t number) { return *ranks_[number]; }

  bool Attach(std::uint32_t number) {
    v1::AttachRequest request;
    request.set_job("vandal");
    request.set_rank(number);
    request.set_size(2);
    v1::AttachReply reply;
    const bool attached = rank(number).Call(&v1::Control::Stub::Attach, request, reply).ok();
    if (attached) groups_[number] = reply.group();
    return attached;
  }
  bool Join() {
    bool first = false;
    std::thread other([&] { first = Attach(0); });
    const bool second = Attach(1);
    other.join();
    return first && second;
  }
  bool Leave(std::uint32_t number) {
    v1::DetachReply reply;
    return rank(number).Call(&v1::Control::Stub::Detach, v1::DetachRequest(), reply).ok();
  }
  void Submit(std::uint32_t number) {
    queue::SubmissionEntry entry{};
    entry.ticket = ++tickets_;
    entry.group = groups_[number];
    entry.kind = OperationKind::kAllReduce;
    entry.data_type = DataType::kUint64;
    entry.reduce_operator = ReduceOperator::kSum;
    entry.count = kInputBytes / sizeof(std::uint64_t);
    entry.output_offset = kInputBytes;
    rank(number).Submit(entry);
  }
  // For both ranks: whether the daemon has given up rank 0, and how rank 1's operation ends.
  void ReportOutcome() {
    std::printf("rank 0: %s\n", rank(0).AwaitEnd() ? "its session ended" : "nothing happened");
    Submit(1);
    ReportCompletion(1);
  }
  void ReportCompletion(std::uint32_t number) {
    const auto reported = rank(number).AwaitCompletion();
    const auto code =
        reported ? static_cast<FailureCode>(reported->failure_code) : FailureCode::kInternal;
    std::printf("rank %u: %s\n", number,
                !reported                    ? "no completion"
                : code == FailureCode::kNone ? "OK"
                                             : FailureCodeName(code));
  }

 private:
  std::unique_ptr<RawClient> ranks_[2];
  std::uint64_t groups_[2] = {};
  std::uint64_t tickets_ = 0;
};

int ChangeSizes(Job& job) {
  RawClient& client = job.rank(0);
  for (const int segment : {client.arena_descriptor(), client.queue_descriptor()}) {
    for (const off_t bytes : {0, 4096, 1 << 30}) {
      std::printf("size: %s\n", ::ftruncate(segment, bytes) == 0 ? "changed" : "refused");
    }
#if defined(__linux__)
    const std::string path = "/proc/self/fd/" + std::to_string(segment);  // Opened again.
    std::printf("size: %s\n", ::truncate(path.c_str(), 0) == 0 ? "changed" : "refused");
#endif
#if defined(F_ADD_SEALS)
    std::printf("seals: %s\n",
                ::fcntl(segment, F_ADD_SEALS, F_SEAL_WRITE) == 0 ? "changed" : "refused");
#endif
  }
  return 0;
}

void Punch(RawClient& client) {
#if defined(FALLOC_FL_PUNCH_HOLE)
  ::fallocate(client.arena_descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              static_cast<off_t>(client.arena_bytes()));
#else
  (void)client;
#endif
}

int Scribble(Job& job, std::uint64_t seed) {
  if (!job.Join()) return 3;
  RawClient& client = job.rank(0);
  std::mt19937_64 random(seed);
  for (int operation = 0; operation < 8; ++operation) {
    job.Submit(0);
    job.Submit(1);
  }
  const auto scribble = [&](std::byte* segment, std::size_t bytes) {
    reinterpret_cast<std::uint64_t*>(segment)[random() % (bytes / 8)] = random();
  };
  while (!client.AwaitEnd(0)) {
    scribble(client.queue(), queue::kQueueSegmentBytes);
    scribble(client.queue(), sizeof client.header());
    scribble(client.arena(), client.arena_bytes());
    client.Ring();
  }
  std::printf("rank 0: its session ended\n");
  return 0;
}

// Only the bytes of these ranks may be lost.
int PunchHoles(Job& job) {
  if (!job.Join()) return 3;
  for (int round = 0; round < 20; ++round) {
    for (const std::uint32_t number : {0u, 1u}) {
      RawClient& client = job.rank(number);
      if (client.arena() != nullptr) std::memset(client.arena(), round, kInputBytes);
    }
    job.Submit(0);
    if (round == 10) job.rank(0).UnmapArena();
    job.Submit(1);
    Punch(job.rank(0));
    Punch(job.rank(1));
    job.ReportCompletion(0);
    job.ReportCompletion(1);
  }
  return 0;
}

int CloseDoorbell(Job& job, const std::string& phase) {
  RawClient& client = job.rank(0);
  std::thread call;
  if (phase == "joining") {
    call = std::thread([&] { job.Attach(0); });
    v1::CancelReply reply;  // The same connection carries it after the other one.
    client.Call(&v1::Control::Stub::Cancel, v1::CancelRequest(), reply);
  } else if (phase != "hello") {
    if (!job.Join()) return 3;
    if (phase == "running") job.Submit(0);
    if (phase == "leaving") call = std::thread([&] { job.Leave(0); });
  }
  client.CloseDoorbell();
  if (call.joinable()) call.join();
  if (phase == "running" || phase == "leaving") {
    job.ReportOutcome();
  } else {
    std::printf("rank 0: %s\n", client.AwaitEnd() ? "its session ended" : "nothing happened");
  }
  return 0;
}

int Flood(const char* socket, Job& job, const std::string& what, int thousands) {
  if (!job.Join()) return 3;
  std::vector<std::unique_ptr<RawClient>> clients;
  Failure failure;
  while (clients.size() < 16) {
    clients.push_back(RawClient::Dial(socket, kArenaBytes, failure));
    if (clients.back() == nullptr) return 3;
  }
  queue::SubmissionEntry wrong{};
  wrong.kind = OperationKind::kAllReduce;
  wrong.data_type = DataType::kUint64;
  wrong.count = ~std::uint64_t{0} / 16;  // No arena is that large.
  const std::string bell(1 << 16, 'x');
  std::printf("begins\n");
  std::fflush(stdout);
  for (int answered = 0; thousands == 0 || answered < 1000 * thousands;) {
    for (const auto& client : clients) {
      if (what == "rings") answered += client->Ring(bell) ? 1 : 0;
      for (int i = 0; what == "calls" && i < 64; ++i) client->Submit(wrong);
      while (const auto completion = client->TakeCompletion()) {
        answered += completion->failure_code == static_cast<int>(FailureCode::kInvalidArgument);
      }
    }
  }
  std::printf("answered\n");
  return 0;
}

int MovePositions(Job& job, const std::string& which) {
  if (!job.Join()) return 3;
  RawClient& client = job.rank(0);
  job.Submit(0);
  auto& header = client.header();
  while (header.submissions.read.load() == 0) ::usleep(100);  // It runs, and waits for rank 1.
  if (which == "ahead") header.submissions.written.store(std::uint64_t{1} << 40);
  if (which == "back") header.submissions.written.store(0);
  if (which == "minus") header.submissions.written.store(~std::uint64_t{0});
  if (which == "completions") header.completions.read.store(std::uint64_t{1} << 40);
  if (which == "header") {
    std::mt19937_64 random(7);
    auto* const words = reinterpret_cast<std::uint64_t*>(client.queue());
    for (std::size_t i = 0; i < sizeof header / sizeof *words; ++i) words[i] = random();
  }
  client.Ring();
  if (which == "completions") {  // It is checked if there is one.
    job.Submit(1);
    job.ReportCompletion(1);
    std::printf("rank 0: %s\n", client.AwaitEnd() ? "its session ended" : "nothing happened");
    return 0;
  }
  job.ReportOutcome();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[2];
  const std::string where = argc > 3 ? argv[3] : "";
  Job job(argv[1]);
  if (what == "sizes") return ChangeSizes(job);
  if (what == "scribbles") return Scribble(job, std::stoull(where));
  if (what == "holes") return PunchHoles(job);
  if (what == "doorbell") return CloseDoorbell(job, where);
  if (what == "flood") return Flood(argv[1], job, where, argc > 4 ? std::atoi(argv[4]) : 0);
  if (what == "positions") return MovePositions(job, where);
  return 2;
}
