#include "client/mlx/group_use.h"

#include <atomic>
#include <cstdint>

#include "client/mlx/operation_error.h"

namespace mlxcomm::graph {
namespace {

constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;

std::atomic<std::uint64_t> g_uses{0};  // Under way; and kClosed.
std::atomic<bool> g_has_ended{false};

}  // namespace

GroupUse::GroupUse() {
  if ((g_uses.fetch_add(1) & kClosed) == 0) return;
  g_uses.fetch_sub(1);
  FailureDetails details;
  details.code = MLXCOMM_CANCELLED;
  details.message = "this process is ending, and has left its jobs";
  throw OperationError(details);
}

GroupUse::~GroupUse() { g_uses.fetch_sub(1); }

bool CloseGroups() {
  std::uint64_t none = 0;
  return g_uses.compare_exchange_strong(none, kClosed);
}

void NoteProcessHasEnded() { g_has_ended = true; }
bool ProcessHasEnded() { return g_has_ended; }

}  // namespace mlxcomm::graph
