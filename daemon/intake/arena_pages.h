// Keeps a client from returning pages of its arena to the system while a device has them
// registered: the device keeps accessing the old physical pages.
//
//   daemon  registered := 1, then reads giving_back      1: not now
//   client  giving_back := 1, then reads registered      1: the pages stay
//
// If both start at once, at least one of them sees the other. Neither waits: a client that sets
// giving_back forever only gets its own payload copied.
//
// Owner: the session, and all parts that may still register. Thread: any. Memory: keeps the queue's
// segment, which holds the two words (queue::ArenaPages).
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

  // All pages stay until the last of these pointers is dropped. Null if the client is returning
  // some now.
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
