// Keeps a client from giving pages of its arena back to the system while a device has them: the
// device goes on reading these physical pages, whatever lies at their addresses since.
//
//   daemon  registered := 1, then looks at giving_back      1: not now
//   client  giving_back := 1, then looks at registered      1: the pages stay
//
// Both do so in this order, so of two that come at once at least one sees the other. Neither waits:
// a client that claims for ever to give pages back has its payload copied, and harms no other.
//
// Owner: the session, and all parts that may still register. Thread: any. Memory: the queue's
// segment with the two words (queue::ArenaPages), which it keeps.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "daemon/platform/shared_memory.h"
#include "proto/queue/layout.h"

namespace mlxcomm::intake {

class ArenaPages : public std::enable_shared_from_this<ArenaPages> {
 public:
  explicit ArenaPages(std::shared_ptr<const platform::SharedSegment> queue)
      : queue_(std::move(queue)),
        words_(reinterpret_cast<queue::QueueHeader*>(queue_->data())->arena_pages) {}

  // All pages stay until the last of these has been dropped. Null: some are being given back just
  // now.
  std::shared_ptr<const void> Keep() {
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

 private:
  void Drop() {
    const std::lock_guard lock(mutex_);
    if (--kept_ == 0) words_.registered.store(0, std::memory_order_release);
  }

  const std::shared_ptr<const platform::SharedSegment> queue_;
  queue::ArenaPages& words_;
  std::mutex mutex_;
  std::uint64_t kept_ = 0;
};

}  // namespace mlxcomm::intake
