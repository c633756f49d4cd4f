#include "daemon/intake/arena_pages.h"

namespace mlxcomm::intake {

std::shared_ptr<const void> ArenaPages::Keep() {
  const std::lock_guard lock(mutex_);
  if (kept_ == 0) {
    words_.registered.store(1, std::memory_order_seq_cst);
    if (words_.giving_back.load(std::memory_order_seq_cst) != 0) {
      words_.registered.store(0, std::memory_order_relaxed);
      return nullptr;
    }
  }
  ++kept_;
  return {this, [self = shared_from_this()](const void*) { self->Drop(); }};
}

void ArenaPages::Drop() {
  const std::lock_guard lock(mutex_);
  if (--kept_ == 0) words_.registered.store(0, std::memory_order_release);
}

}  // namespace mlxcomm::intake
