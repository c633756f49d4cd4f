#include "client/lib/meeting.h"

#include <sys/stat.h>

#include <array>
#include <cstring>

#include "client/lib/clock.h"
#include "daemon/reduce/kernels.h"
#include "proto/queue/core_watch.h"
#include "proto/types/operation_shape.h"

namespace mlxcomm::client {
namespace {

using meeting::Progress;
using meeting::Way;

// In most kinds each rank reads all contributions, which the daemon would read once. So with more
// ranks, only smaller operations are faster without the daemon.
constexpr std::uint64_t kReadByAllMost = 4 * meeting::kCellBytes;
constexpr std::uint64_t kOfAnyRanksBytes = std::uint64_t{16} * 1024;

std::uint64_t ContributionBytes(const queue::SubmissionEntry& entry, std::uint32_t ranks) {
  switch (RowOf(entry.kind).input.extent) {
    case Extent::kCount: return entry.count * DataTypeBytes(entry.data_type);
    case Extent::kBlocks: return ranks * entry.count * DataTypeBytes(entry.data_type);
    default: return 0;
  }
}

// The same on all ranks whose calls are alike.
bool MayMeet(const queue::SubmissionEntry& entry, std::uint32_t ranks) {
  if (IsPointToPoint(entry.kind) || HasCounts(entry.kind)) return false;
  if (entry.plan != PlanKind::kAutomatic) return false;
  if (entry.count > meeting::kCellBytes) return false;
  const std::uint64_t bytes = ContributionBytes(entry, ranks);
  // Each rank reads only its own block.
  const bool all_is_read = RowOf(entry.kind).input.extent == Extent::kCount;
  return bytes <= meeting::kCellBytes &&
         (bytes <= kOfAnyRanksBytes || !all_is_read || bytes * ranks * ranks <= kReadByAllMost);
}

}  // namespace

std::unique_ptr<Meeting> Meeting::Map(int descriptor) {
  struct stat about{};
  const bool is_sized = ::fstat(descriptor, &about) == 0 &&
                        static_cast<std::size_t>(about.st_size) >= sizeof(meeting::PageHeader);
  const std::size_t bytes = is_sized ? static_cast<std::size_t>(about.st_size) : 0;
  Mapping memory = MapShared(descriptor, bytes);  // No bytes: the system refuses.
  if (memory == nullptr) return nullptr;
  const auto& header = *reinterpret_cast<const meeting::PageHeader*>(memory.get());
  const std::uint32_t ranks = header.ranks;
  const bool fits = header.magic == meeting::kPageMagic &&
                    header.version == meeting::kPageVersion && ranks >= 2 &&
                    ranks <= meeting::kRanksMax && bytes >= meeting::PageBytes(ranks);
  if (!fits) return nullptr;
  return std::unique_ptr<Meeting>(new Meeting(std::move(memory), header.group, ranks));
}

Way Meeting::Call(const std::byte* arena, std::uint64_t input_bytes, std::uint64_t now_ns,
                  Operation& operation) {
  queue::SubmissionEntry& entry = operation.entry;
  operation.call = meeting::WordsOf(entry.kind, entry.data_type, entry.reduce_operator,
                                    entry.peer_rank, entry.count, entry.check_word());
  operation.began_ns = now_ns;
  const meeting::Contribution brings{operation.call, MayMeet(entry, ranks()),
                                     arena + entry.input_offset, input_bytes, now_ns};
  const meeting::Called called = side_->Call(brings, entry);
  operation.number = called.number;
  entry.tag = static_cast<std::uint32_t>(called.number);
  return called.way;
}

int Meeting::LookAtOnce(const Operation& operation, int most) const {
  std::uint32_t rank = 0;
  int looks = 0;
  while (looks < most && side_->Look(operation.number, operation.call, rank) == Progress::kWaits) {
    ++looks;
    queue::AdaptiveSpin::PauseCore();
  }
  return looks;
}

bool Meeting::WaitAwake(const Operation& operation, std::uint64_t until_ns,
                        std::uint64_t& longest_gap_ns) const {
  constexpr int kLooks = 16;  // Less than a microsecond.
  std::uint64_t now_ns = NowNs();
  queue::CoreWatch core(now_ns);
  bool keeps = true;
  while (keeps && now_ns < until_ns) {
    const bool is_over = LookAtOnce(operation, kLooks) < kLooks;
    now_ns = NowNs();
    keeps = core.Keeps(now_ns);
    if (is_over) break;
  }
  longest_gap_ns = core.longest_gap_ns();
  return keeps;
}

void Meeting::Wait(const Operation& operation, const queue::AdaptiveSpin& spin,
                   std::uint64_t until_ns) const {
  std::uint32_t rank = 0;
  Progress progress = Progress::kWaits;
  const std::uint64_t began_ns = NowNs();
  std::uint64_t now_ns = began_ns;
  while (now_ns - began_ns < spin.budget_ns() && now_ns < until_ns) {
    progress = side_->Look(operation.number, operation.call, rank);
    if (progress != Progress::kWaits) return;
    queue::AdaptiveSpin::Pause(spin.limits());
    now_ns = NowNs();
  }
  for (;;) {
    progress = side_->Look(operation.number, operation.call, rank);
    if (progress != Progress::kWaits || now_ns >= until_ns || !meeting::CanPark()) return;
    side_->Sleep(operation.number, rank, until_ns - now_ns);
    now_ns = NowNs();
  }
}

void Meeting::Combine(const Operation& operation, std::byte* arena) const {
  const queue::SubmissionEntry& entry = operation.entry;
  const OperationRow& row = RowOf(entry.kind);
  const std::uint32_t own = side_->rank();
  if (!row.output.IsOn(own, entry.peer_rank) || entry.count == 0) return;
  std::byte* output = arena + entry.output_offset;
  const std::uint64_t bytes = ContributionBytes(entry, ranks());
  const std::uint64_t block = entry.count * DataTypeBytes(entry.data_type);
  // Blocks for all ranks: this one's.
  const std::uint64_t offset = row.input.extent == Extent::kBlocks ? own * block : 0;
  const auto from = [&](std::uint32_t rank) {
    return view_.contribution(rank, operation.number, bytes) + offset;
  };
  const Sources sources =
      SourcesOf({.kind = entry.kind, .rank = own, .size = ranks(), .root = entry.peer_rank});
  if (!Reduces(entry.kind)) {
    for (std::uint32_t rank = sources.begin; rank < sources.end; ++rank, output += block) {
      std::memcpy(output, from(rank), block);
    }
    return;
  }
  std::array<const std::byte*, meeting::kRanksMax> inputs;
  for (std::uint32_t i = 0; i < sources.count(); ++i) inputs[i] = from(sources.begin + i);
  const std::uint32_t divisor = entry.reduce_operator == ReduceOperator::kMean ? ranks() : 1;
  reduce::Combine({entry.data_type, entry.reduce_operator, divisor}, inputs.data(), sources.count(),
                  &output, 1, entry.count);
}

void Meeting::End(const Operation& operation, std::uint64_t ended_ns) {
  if (ended_ns != 0) {
    Count(operation, ended_ns - operation.began_ns);
    side_->Record({operation.number + 1, operation.began_ns, ended_ns, operation.call, {}});
  }
  side_->End(operation.number);
}

// Plain additions: no other process writes there.
void Meeting::Count(const Operation& operation, std::uint64_t duration_ns) const {
  const queue::SubmissionEntry& entry = operation.entry;
  meeting::MetTally& tally =
      view_.area(side_->rank())
          .tallies[static_cast<std::size_t>(entry.kind) % meeting::kTalliesASide]
                  [static_cast<std::size_t>(entry.data_type) % meeting::kTalliesASide];
  const auto add = [](std::atomic<std::uint64_t>& number, std::uint64_t more) {
    number.store(number.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  };
  std::size_t bucket = 0;
  while (bucket + 1 < meeting::kTallyBuckets && duration_ns > meeting::TallyBoundNs(bucket)) {
    ++bucket;
  }
  add(tally.buckets[bucket], 1);
  add(tally.bytes, entry.count * DataTypeBytes(entry.data_type));
  add(tally.duration_ns, duration_ns);
}

}  // namespace mlxcomm::client
