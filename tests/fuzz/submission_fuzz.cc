// Submissions: what a training process writes into the memory that it shares with its daemon.
//
// Hostile: all of the queue's segment. A process may write any entry into any slot and any position
// into either ring, at any time; clients read the daemon's completions in the same way.
// Read by: queue::RingConsumer and RingProducer (proto/queue/ring.h), CheckSubmission
// (daemon/intake/submission.h), and ShapeOf (proto/types/operation_shape.h), which computes
// how much of the arena an operation touches.
//
// Must hold:
//   - a ring returns an entry only if the written position is at most its number of slots ahead; it
//     returns each slot's bytes, in order, and reports anything else as corrupt;
//   - a completion's message is never longer than its field, and no more than that is copied;
//   - an accepted submission lies in the arena, with all that is said to be available from there,
//     and has only existing values; recomputed here in 128 bits, without overflow;
//   - a refused one breaks one of those, and the refusal names the argument;
//   - an accepted shape is the sum that it should be, and at most kElementsMax.
//
// Script: the arena's size, then steps of one byte and their arguments.
#include <sys/mman.h>

#include <memory>
#include <vector>

#include "daemon/intake/submission.h"
#include "proto/queue/layout.h"
#include "proto/queue/ring.h"
#include "proto/types/operation_shape.h"
#include "tests/fuzz/fuzz.h"

namespace mlxcomm::intake {
namespace {

using fuzz::Input;
using queue::RingResult;
using Wide = unsigned __int128;

// Address space alone: nothing that is checked here may read an arena.
constexpr std::uint64_t kArenaSpace = std::uint64_t{1} << 40;

std::byte* Arena() {
  static std::byte* const arena = [] {
    void* const space =
        ::mmap(nullptr, kArenaSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(space);
  }();
  return arena;
}

// The names are those of proto/types/operation.h, repeated here.
bool HasOnlyKnownValues(const queue::SubmissionEntry& entry) {
  const auto number = [](auto value) { return static_cast<unsigned>(value); };
  const bool is_message =
      entry.kind == OperationKind::kSend || entry.kind == OperationKind::kReceive;
  return number(entry.kind) >= 1 && number(entry.kind) <= 13 && number(entry.data_type) >= 1 &&
         number(entry.data_type) <= 14 && number(entry.reduce_operator) <= 7 &&
         number(entry.plan) <= 4 && number(entry.purpose) <= 1 &&
         (!is_message || entry.check_word() == 0);
}

std::uint64_t ElementBytes(DataType type) {
  constexpr std::uint8_t kBytes[] = {0, 4, 2, 2, 4, 1, 1, 2, 8, 1, 2, 4, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

bool HasTable(OperationKind kind) {
  return kind == OperationKind::kAllGatherV || kind == OperationKind::kAllToAllV;
}

// Empty: fine. Otherwise the first word of the message.
std::string_view WrongArgument(const queue::SubmissionEntry& entry, std::uint64_t arena_bytes) {
  const std::uint64_t element = ElementBytes(entry.data_type);
  const auto is_outside = [&](std::uint64_t offset, std::uint64_t alignment) {
    return offset > arena_bytes || offset % alignment != 0;
  };
  if (HasTable(entry.kind)) {
    if (is_outside(entry.count, 8)) return "counts";
  } else if (Wide{entry.count} * element > arena_bytes ||
             (entry.kind == OperationKind::kBarrier && entry.count != 0)) {
    return "count";
  }
  if (is_outside(entry.input_offset, element)) return "input";
  if (is_outside(entry.output_offset, element)) return "output";
  return {};
}

void CheckRange(const std::byte* first, std::uint64_t bytes, std::uint64_t arena_bytes,
                const char* name) {
  const auto begin = reinterpret_cast<std::uintptr_t>(Arena());
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  MLXCOMM_MUST(at >= begin && Wide{at - begin} + bytes == arena_bytes,
               std::string(name) + " and what is available there end with the arena");
}

void CheckEntry(const queue::SubmissionEntry& entry, std::uint64_t arena_bytes) {
  const absl::StatusOr<collective::Call> checked = CheckSubmission(3, entry, Arena(), arena_bytes);
  const bool is_garbage = absl::IsDataLoss(checked.status());
  MLXCOMM_MUST(is_garbage == !HasOnlyKnownValues(entry),
               "garbage is what has values that there are not");
  if (is_garbage) return;
  const std::string message(checked.status().message());
  const std::string_view wrong = WrongArgument(entry, arena_bytes);
  MLXCOMM_MUST(checked.ok() == wrong.empty(),
               "what is taken lies in the arena, and what is refused does not: " + message);
  if (!checked.ok()) {
    MLXCOMM_MUST(message.starts_with(std::string(wrong) + ":"),
                 "the message names the argument: " + message);
    return;
  }
  const collective::Call& call = *checked;
  MLXCOMM_MUST(call.session == 3 && call.group == entry.group && call.ticket == entry.ticket,
               "the call is the entry's, of this session");
  CheckRange(call.input, call.input_bytes_available, arena_bytes, "input");
  CheckRange(call.output, call.output_bytes_available, arena_bytes, "output");
  MLXCOMM_MUST((call.counts != nullptr) == HasTable(entry.kind),
               "only the kinds that have a table of counts have one");
  if (call.counts == nullptr) return;
  CheckRange(call.counts, call.counts_bytes_available, arena_bytes, "counts");
}

Wide SumOf(std::span<const std::uint64_t> counts) {
  Wide sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  return sum;
}

// Only the daemon knows the size of a group.
void CheckShape(const queue::SubmissionEntry& entry, Input& input) {
  const std::uint32_t size = 1u + input.TakeUpTo(15);
  const std::uint32_t rank = input.TakeByte() % size;
  std::vector<std::uint64_t> counts(CountsLength(entry.kind, size));
  for (std::uint64_t& count : counts) count = input.Take<std::uint64_t>();
  const ShapeRequest request{
      entry.kind, HasTable(entry.kind) ? 0 : entry.count, rank, size, entry.peer_rank, counts};
  OperationShape shape;
  if (!ShapeOf(request, shape)) return;
  MLXCOMM_MUST(shape.input_elements <= kElementsMax && shape.output_elements <= kElementsMax,
               "a shape is at most kElementsMax elements");
  MLXCOMM_MUST(
      (shape.reads || shape.input_elements == 0) && (shape.writes || shape.output_elements == 0),
      "nothing is touched that is neither read nor written");
  const Wide most = Wide{request.count} * size;
  if (entry.kind == OperationKind::kAllGatherV) {
    MLXCOMM_MUST(shape.output_elements == SumOf(counts) && shape.input_elements == counts[rank],
                 "all_gather_v reads its own count and writes the sum");
  } else if (entry.kind == OperationKind::kAllToAllV) {
    const std::span<const std::uint64_t> all = counts;
    MLXCOMM_MUST(shape.input_elements == SumOf(all.first(size)) &&
                     shape.output_elements == SumOf(all.subspan(size)),
                 "all_to_all_v reads and writes the sums of its two tables");
  } else {
    MLXCOMM_MUST(shape.input_elements <= most && shape.output_elements <= most,
                 "nobody touches more than a block for each rank");
  }
}

// A segment as the two processes see it. Shared by all runs because it is large: submissions begin
// as zeros, and only completions that were written in the same run are read.
struct Segment {
  queue::QueueHeader header{};
  std::vector<queue::SubmissionEntry>& submissions = Zeros();
  std::vector<queue::CompletionEntry>& completions = Some();

 private:
  static std::vector<queue::SubmissionEntry>& Zeros() {
    static std::vector<queue::SubmissionEntry> entries(queue::kSubmissionSlots);
    std::memset(entries.data(), 0, entries.size() * sizeof entries[0]);
    return entries;
  }
  static std::vector<queue::CompletionEntry>& Some() {
    static std::vector<queue::CompletionEntry> entries(queue::kCompletionSlots);
    return entries;
  }
};

class Rings {
 public:
  explicit Rings(std::uint64_t arena_bytes) : arena_bytes_(arena_bytes) {}

  void Step(Input& input) {
    switch (input.TakeUpTo(6)) {
      case 0: {  // The client writes an entry into the correct slot, and the position.
        queue::SubmissionEntry& slot = segment_.submissions[written_ % queue::kSubmissionSlots];
        slot = input.Take<queue::SubmissionEntry>();
        segment_.header.submissions.written.store(++written_);
        return;
      }
      case 1: return Pop();
      case 2:  // It writes an invented position.
        written_ = input.Take<std::uint64_t>();
        return segment_.header.submissions.written.store(written_);
      case 3: {  // It claims to have read this many completions.
        segment_.header.completions.read.store(input.Take<std::uint64_t>());
        return;
      }
      case 4: return Push(input.Take<std::uint32_t>());
      case 5: return ReadCompletion(input);
      default: {  // An accepted entry, as the daemon measures it.
        const auto entry = input.Take<queue::SubmissionEntry>();
        CheckEntry(entry, arena_bytes_);
        if (HasOnlyKnownValues(entry)) CheckShape(entry, input);
      }
    }
  }

 private:
  void Pop() {
    const std::uint64_t ahead = written_ - popped_;
    const RingResult expected = ahead == 0                         ? RingResult::kNothing
                                : ahead <= queue::kSubmissionSlots ? RingResult::kDone
                                                                   : RingResult::kCorrupt;
    queue::SubmissionEntry entry;
    const RingResult result = consumer_.Pop(entry);
    MLXCOMM_MUST(result == expected, "only a position at most all slots ahead is believed");
    if (result != RingResult::kDone) return;
    const queue::SubmissionEntry& slot = segment_.submissions[popped_ % queue::kSubmissionSlots];
    MLXCOMM_MUST(std::memcmp(&entry, &slot, sizeof entry) == 0, "an entry is its slot's copy");
    MLXCOMM_MUST(segment_.header.submissions.read.load() == ++popped_,
                 "what was read is told, and nothing else");
    CheckEntry(entry, arena_bytes_);
  }
  void Push(std::uint32_t number) {
    const std::uint64_t used = pushed_ - segment_.header.completions.read.load();
    const RingResult expected = used > queue::kCompletionSlots    ? RingResult::kCorrupt
                                : used == queue::kCompletionSlots ? RingResult::kNothing
                                                                  : RingResult::kDone;
    queue::CompletionEntry entry{};
    entry.ticket = number;
    const RingResult result = producer_.Push(entry);
    MLXCOMM_MUST(result == expected, "a completion takes only a slot that is free");
    if (result != RingResult::kDone) return;
    const queue::CompletionEntry& slot = segment_.completions[pushed_++ % queue::kCompletionSlots];
    MLXCOMM_MUST(slot.ticket == number, "a completion goes to the next slot");
  }
  // A client that reads what its daemon, or an impostor, has written.
  static void ReadCompletion(Input& input) {
    queue::RingPositions positions{};
    alignas(queue::kSlotAlignment) queue::CompletionEntry slot{};
    input.TakeInto(&slot, queue::kCompletionHeadBytes);
    positions.written.store(input.Take<std::uint64_t>());
    queue::CompletionConsumer consumer(&positions, &slot, 1);
    // On the heap, so that an access one byte too far is noticed.
    const auto copy = std::make_unique<queue::CompletionEntry>();
    if (consumer.Pop(*copy) != RingResult::kDone) return;
    MLXCOMM_MUST(copy->message_bytes <= kFailureMessageBytesMax,
                 "a message is not longer than its field");
  }

  std::uint64_t arena_bytes_;
  Segment segment_;
  queue::SubmissionConsumer consumer_{&segment_.header.submissions, segment_.submissions.data(),
                                      queue::kSubmissionSlots};
  queue::CompletionProducer producer_{&segment_.header.completions, segment_.completions.data(),
                                      queue::kCompletionSlots};
  std::uint64_t written_ = 0;  // By the client.
  std::uint64_t popped_ = 0;
  std::uint64_t pushed_ = 0;
};

}  // namespace
}  // namespace mlxcomm::intake

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  mlxcomm::fuzz::Input input(data, bytes);
  mlxcomm::intake::Rings rings(input.Take<std::uint64_t>() % mlxcomm::intake::kArenaSpace);
  while (!input.empty()) rings.Step(input);
  return 0;
}
