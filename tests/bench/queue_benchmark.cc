// The queue between a client and its daemon: the cost of a push and a pop, and of a hand-over to
// another process and back, to one that spins and to one that sleeps on its doorbell.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include <benchmark/benchmark.h>

#include "proto/queue/doorbell.h"
#include "proto/queue/ring.h"

namespace {

using namespace mlxcomm::queue;

constexpr std::uint64_t kPatienceNs = 10'000'000'000;  // For a sleeper whose peer process died.

// The queue segment, between this process and its children.
struct Shared {
  QueueHeader header;
  SubmissionEntry submissions[kSubmissionSlots];
  CompletionEntry completions[kCompletionSlots];
};

class SharedQueue {
 public:
  SharedQueue() {
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || !MakeDoorbellPair(bells)) std::abort();
    shared = new (memory) Shared();
  }
  ~SharedQueue() {
    ::munmap(shared, sizeof(Shared));
    for (const int bell : bells) ::close(bell);
  }
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;

  SubmissionProducer Submit() {
    return {&shared->header.submissions, shared->submissions, kSubmissionSlots};
  }
  SubmissionConsumer Take() {
    return {&shared->header.submissions, shared->submissions, kSubmissionSlots};
  }
  CompletionProducer Complete() {
    return {&shared->header.completions, shared->completions, kCompletionSlots};
  }
  CompletionConsumer Collect() {
    return {&shared->header.completions, shared->completions, kCompletionSlots};
  }

  Shared* shared = nullptr;
  int bells[2] = {-1, -1};  // This process's, the child's.
};

void PushAndPop(benchmark::State& state) {
  SharedQueue queue;
  SubmissionProducer producer = queue.Submit();
  SubmissionConsumer consumer = queue.Take();
  SubmissionEntry entry{};
  for (auto turn : state) {
    benchmark::DoNotOptimize(producer.Push(entry));
    benchmark::DoNotOptimize(consumer.Pop(entry));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PushAndPop);

// Waits for an entry; a sleeper has announced it, so that its doorbell is rung.
template <typename Consumer, typename Entry>
void Await(Consumer& consumer, Entry& entry, int bell, bool sleeps) {
  while (consumer.Pop(entry) != RingResult::kDone) {
    if (!sleeps || !consumer.PrepareToSleep()) continue;
    if (WaitForDoorbell(bell, kPatienceNs) == DoorbellState::kOtherSideGone) ::_exit(1);
    consumer.WakeUp();
  }
}

template <typename Producer, typename Entry>
void Give(Producer& producer, const Entry& entry, int bell) {
  if (producer.Push(entry) != RingResult::kDone) std::abort();
  if (producer.ConsumerSleeps()) RingDoorbell(bell);
}

// The child answers each submission with a completion, until its ticket is 0.
[[noreturn]] void Answer(SharedQueue& queue, bool sleeps) {
  SubmissionConsumer submissions = queue.Take();
  CompletionProducer completions = queue.Complete();
  ::close(queue.bells[0]);
  for (;;) {
    SubmissionEntry asked{};
    Await(submissions, asked, queue.bells[1], sleeps);
    if (asked.ticket == 0) ::_exit(0);
    CompletionEntry answer{};
    answer.ticket = asked.ticket;
    Give(completions, answer, queue.bells[1]);
  }
}

void ThereAndBack(benchmark::State& state, bool sleeps) {
  SharedQueue queue;
  const pid_t child = ::fork();
  if (child == 0) Answer(queue, sleeps);
  SubmissionProducer submissions = queue.Submit();
  CompletionConsumer completions = queue.Collect();
  SubmissionEntry ask{};
  CompletionEntry answer{};
  for (auto turn : state) {
    ++ask.ticket;
    Give(submissions, ask, queue.bells[0]);
    Await(completions, answer, queue.bells[0], sleeps);
    if (answer.ticket != ask.ticket) state.SkipWithError("another answer");
  }
  ask.ticket = 0;
  Give(submissions, ask, queue.bells[0]);
  ::waitpid(child, nullptr, 0);
}
BENCHMARK_CAPTURE(ThereAndBack, spinning, false)->UseRealTime();
BENCHMARK_CAPTURE(ThereAndBack, by_doorbell, true)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
