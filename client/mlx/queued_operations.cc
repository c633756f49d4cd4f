#include "client/mlx/queued_operations.h"

#include <condition_variable>
#include <mutex>

namespace mlxcomm::graph {
namespace {

struct Queued {
  std::mutex mutex;
  std::condition_variable none;
  std::uint64_t count = 0;
  std::uint64_t ended = 0;
};
Queued& All() {
  static Queued* const queued = new Queued;
  return *queued;
}

}  // namespace

QueuedOperation::QueuedOperation() {
  Queued& all = All();
  const std::lock_guard lock(all.mutex);
  ++all.count;
}

QueuedOperation::~QueuedOperation() {
  Queued& all = All();
  const std::lock_guard lock(all.mutex);
  ++all.ended;
  if (--all.count == 0) all.none.notify_all();
}

std::uint64_t QueuedOperation::AwaitNone(std::chrono::milliseconds most, std::uint64_t& ended) {
  Queued& all = All();
  std::unique_lock lock(all.mutex);
  all.none.wait_for(lock, most, [&all] { return all.count == 0; });
  ended = all.ended;
  return all.count;
}

}  // namespace mlxcomm::graph
