#include "client/mlx/operation_task.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "client/lib/interrupt.h"
#include "client/lib/pending_sends.h"
#include "client/mlx/copy_in.h"
#include "client/mlx/mlx_releases.h"
#include "client/mlx/process_end.h"
#include "client/mlx/result_memory.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/version.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

// Says whether the output uses the input's memory.
enum class InPlace : std::uint8_t { kNever, kIfNoRoom, kAlways };

InPlace InPlaceOf(const JoinedGroup& joined, const Operation& operation, std::uint64_t bytes) {
  if (!MayBeInPlace(operation.kind)) return InPlace::kNever;
  const bool prefers =
      mlxcomm_prefers_in_place(joined.group, static_cast<mlxcomm_kind>(operation.kind), bytes) != 0;
  return prefers ? InPlace::kAlways : InPlace::kIfNoRoom;
}

// Makes the input readable for the daemon during one operation. In place, it is copied to the
// output: half the memory, and the daemon writes to cached lines.
class ArenaInput {
 public:
  ArenaInput(const std::shared_ptr<Connected>& connected, const void* data, std::uint64_t bytes,
             InPlace in_place, std::byte* output) {
    if (bytes == 0) return;
    if (mlxcomm_in_arena(connected->connection, data, bytes) != 0) {
      GetCounters().inputs_in_arena.fetch_add(1, std::memory_order_relaxed);
      data_ = data;
      return;
    }
    GetCounters().inputs_copied.fetch_add(1, std::memory_order_relaxed);
    if (output == nullptr || in_place == InPlace::kNever) {
      copy_ = ArenaRange::Allocate(connected, bytes);
    } else if (in_place == InPlace::kIfNoRoom) {
      copy_ = ArenaRange::AllocateIfRoom(connected, bytes);
    }
    std::byte* const to = copy_.is_empty() ? output : copy_.data();
    CopyIn(to, static_cast<const std::byte*>(data), bytes);
    data_ = to;
  }
  const void* data() const { return data_; }

 private:
  ArenaRange copy_;
  const void* data_ = nullptr;
};

bool IsSameOnAllRanks(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kBroadcast ||
         kind == OperationKind::kAllGather || kind == OperationKind::kAllGatherV;
}

// Gathers a hash of the result from all ranks, which do so after the same operation.
void CompareValues(const JoinedGroup& joined, const Operation& operation, const std::byte* output,
                   std::uint64_t bytes) {
  const std::uint64_t hash = HashOf({reinterpret_cast<const char*>(output), bytes});
  const ArenaRange range =
      ArenaRange::Allocate(joined.connected, sizeof hash * (joined.size() + std::uint64_t{1}));
  auto* const hashes = reinterpret_cast<std::uint64_t*>(range.data());
  hashes[joined.size()] = hash;
  mlxcomm_request request = mlxcomm_request_of(MLXCOMM_ALL_GATHER, hashes + joined.size(), hashes,
                                               1, MLXCOMM_UINT64, operation.timeout_ns);
  mlxcomm_error error{};
  CheckOperation(mlxcomm_submit(joined.group, &request, nullptr, &error), error, joined.group);
  std::string differ;
  std::uint32_t count = 0;
  for (std::uint32_t rank = 0; rank < joined.size(); ++rank) {
    if (hashes[rank] != hashes[0]) differ += (count++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  if (differ.empty()) return;
  FailureDetails details;
  details.code = MLXCOMM_MISMATCH;
  details.group = mlxcomm_group_name(joined.group);
  details.message = "the result of " + operation.checked->Text() +
                    " is not the same on all ranks: " +
                    (count == 1 ? "rank " + differ + " differs" : "ranks " + differ + " differ") +
                    " from rank 0: a bug in mlxcomm, or faulty memory";
  throw OperationError(details);
}

// Keeps a payload that the daemon reads in place from being overwritten during a send.
using Payload = std::shared_ptr<mx::array::Data>;

// Owned by a send that continues after its task.
struct Kept {
  std::shared_ptr<JoinedGroup> joined;
  Payload payload;
  std::unique_ptr<GroupUse> use = std::make_unique<GroupUse>();
  std::unique_ptr<QueuedOperation> queued = std::make_unique<QueuedOperation>();
};

// If the arena is full, waits until earlier sends have freed memory.
template <typename Allocate>
void WithRoom(Allocate allocate) {
  while (true) {
    try {
      return allocate();
    } catch (const OperationError& error) {
      if (error.details().code != MLXCOMM_RESOURCE_EXHAUSTED || !client::AwaitASend()) throw;
    }
  }
}

// Carries it out, on MLX's stream thread.
void Run(const std::shared_ptr<JoinedGroup>& joined, const Operation& operation,
         mlxcomm_request request, const void* input, std::uint64_t input_bytes,
         ResultMemory* result, Payload payload) {
  GetCounters().operations.fetch_add(1, std::memory_order_relaxed);
  client::ReapSends();
  std::byte* output = nullptr;
  if (result != nullptr) WithRoom([&] { output = result->Begin(); });
  std::optional<ArenaInput> arena_input;
  WithRoom([&] {
    arena_input.emplace(joined->connected, input, input_bytes,
                        InPlaceOf(*joined, operation, input_bytes), output);
  });
  if (arena_input->data() != input) payload = nullptr;  // It was copied.
  request.input = arena_input->data();
  request.output = output;
  request.counts = operation.send_rows.data();
  request.receive_counts = operation.receive_rows.data();
  const bool goes_on = operation.kind == OperationKind::kSend && client::SendBytesMax() > 0;
  mlxcomm_error error{};
  std::uint64_t ticket = 0;
  CheckOperation(mlxcomm_submit(joined->group, &request, goes_on ? &ticket : nullptr, &error),
                 error, joined->group);
  if (goes_on) {
    auto kept = std::make_shared<Kept>(Kept{joined, std::move(payload)});
    CheckOperation(
        client::GoOn(joined->group, ticket, operation.root, input_bytes, std::move(kept), &error),
        error, joined->group);
  }
  if (operation.checked != nullptr && IsSameOnAllRanks(operation.kind) &&
      ComparesValuesNow(joined->call_numbers)) {
    CompareValues(*joined, operation, output, result->bytes());
  }
  if (result != nullptr) result->End();
}

std::atomic<HandOver (*)()> g_make_hand_over{nullptr};

// MLX would terminate the process without a message.
[[noreturn, maybe_unused]] void EndProcess(const JoinedGroup& joined, const OperationError& error) {
  std::fflush(stdout);
  std::fprintf(
      stderr,
      "mlxcomm: %s. The process exits, because MLX %s cannot report the error of an operation: "
      "upgrade MLX to 0.32.1 or newer\n",
      error.what(), mx::version());
  mlxcomm_leave(joined.group, error.what());
  std::_Exit(1);
}

// Calls it, and reports its failure in the way that this MLX supports.
template <typename Call>
void Reported(const JoinedGroup& joined, const HandOver& hand_over, Call call) {
  if constexpr (ThrowsWhatTasksThrow<>) {
    call();
  } else {
    try {
      call();
    } catch (const OperationError& error) {
      if (!hand_over) EndProcess(joined, error);
      hand_over(error.details());
    }
  }
}

void ScheduleOrThrow(const std::shared_ptr<JoinedGroup>& joined, Operation operation,
                     const mx::array* input, mx::array* output, mx::Stream stream,
                     const HandOver& hand_over) {
  struct Waited {
    GroupUse use;
    client::UnderWay under_way;
    QueuedOperation queued;
  };
  auto waited = std::make_shared<Waited>();
  mlxcomm_error error{};
  CheckOperation(mlxcomm_group_failure(joined->group, &error), error, joined->group);
  const mlxcomm_request request = Bind(operation, joined->size(), input, output);
  if (operation.checked != nullptr) operation.checked->evaluated = true;
  auto& encoder = mx::cpu::get_command_encoder(stream);
  const void* in = nullptr;
  std::uint64_t in_bytes = 0;
  if (input != nullptr) {
    encoder.add_temporary(*input);  // It may share the output's former buffer.
    encoder.set_input_array(*input);
    in = input->data<void>();
    in_bytes = input->nbytes();
  }
  std::shared_ptr<ResultMemory> out;
  if (output != nullptr) {
    const bool reuses = operation.consumes_input && input != nullptr &&
                        InPlaceOf(*joined, operation, in_bytes) == InPlace::kAlways &&
                        mlxcomm_in_arena(joined->connected->connection, in, in_bytes) != 0;
    out = reuses ? ResultMemory::Reuse(*output, *input)
                 : ResultMemory::Give(*output, joined->connected);
    encoder.set_output_array(*output);
  }
  Payload payload;
  if (operation.kind == OperationKind::kSend) payload = input->data_shared_ptr();
  encoder.dispatch([joined, operation = std::move(operation), request, in, in_bytes, out, hand_over,
                    payload = std::move(payload), waited = std::move(waited)]() mutable {
    const EndOfTask end;
    const auto until_then = std::move(waited);  // AwaitQueued does not wait for `end`.
    Reported(*joined, hand_over,
             [&] { Run(joined, operation, request, in, in_bytes, out.get(), payload); });
  });
}

}  // namespace

Counters& GetCounters() {
  static Counters counters;
  return counters;
}

void SetHandOver(HandOver (*make)()) { g_make_hand_over = make; }

void Schedule(const std::shared_ptr<JoinedGroup>& joined, const Operation& operation,
              const mx::array* input, mx::array* output, mx::Stream stream) {
  HandOver hand_over;
  if (!ThrowsWhatTasksThrow<> && g_make_hand_over.load() != nullptr)
    hand_over = g_make_hand_over.load()();
  bool is_scheduled = false;
  Reported(*joined, hand_over, [&] {
    ScheduleOrThrow(joined, operation, input, output, stream, hand_over);
    is_scheduled = true;
  });
  if (is_scheduled || output == nullptr) return;
  output->set_data(mx::allocator::malloc(output->nbytes()));
  std::memset(output->data<void>(), 0, output->nbytes());
}

}  // namespace mlxcomm::graph
