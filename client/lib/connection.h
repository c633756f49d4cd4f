// One session with the daemon: its memory, its queue, and everybody who waits.
//
// Submitting takes a mutex for the ring's single producer. Of the threads that wait,
// one at a time reads the completion ring and hands out what is not its own; the
// others sleep until it has something for them or goes.
//
//   reader: look again for a short, bounded time ─▶ sleep on the doorbell ─▶ ...
//   doorbell's end-of-file ─▶ DAEMON_LOST for everything, at once
//
// The ranges of the arena that an operation reads or writes are pinned from before it is
// submitted until the daemon has said that it has ended. A daemon that is lost says
// nothing, and may be writing still: then they stay pinned.
//
// Owner: the C handle. Thread: any. Memory: two mappings; an entry for each
// operation in flight.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "client/lib/arena_allocator.h"
#include "client/lib/attach_table.h"
#include "client/lib/mlxcomm.h"
#include "proto/queue/dial.h"
#include "proto/queue/ring.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

class Connection {
 public:
  static constexpr std::uint32_t kInFlightMax = queue::kCompletionSlots - 1;

  static Failure Open(const mlxcomm_connect_options& options, std::unique_ptr<Connection>& out);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  ArenaAllocator& arena() { return *allocator_; }
  std::byte* arena_data() const { return arena_; }
  bool Contains(const void* data, std::uint64_t bytes) const;
  std::uint64_t OffsetOf(const void* data) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - arena_);
  }

  Failure Join(const char* job, std::uint32_t rank, std::uint32_t size, std::uint64_t timeout_ns,
               mlxcomm_attached& attached);
  void Leave();

  struct Outcome {
    Failure failure;
    bool group_failed = false;
  };
  // What the daemon reads and writes, in bytes; the entry has the offsets.
  struct Extent {
    std::uint64_t input_bytes = 0;
    std::uint64_t output_bytes = 0;
  };
  // Fills in the ticket, here and in the entry. RESOURCE_EXHAUSTED: too many in flight. INVALID_ARGUMENT: not
  // memory of one buffer.
  Failure Submit(queue::SubmissionEntry& entry, Extent extent, std::uint64_t timeout_ns,
                 std::uint64_t& ticket);
  Outcome Wait(std::uint64_t ticket);

  // False in a forked child: nothing of the parent's may be touched there.
  bool usable() const;

 private:
  struct Pending {
    std::uint64_t input_offset = 0;
    std::uint64_t output_offset = 0;
    std::uint64_t deadline_ns = 0;  // A daemon that answers nothing by then is lost.
    bool reads = false;             // Its input is pinned.
    bool writes = false;            // Its output is pinned.
    bool abandoned = false;         // Nobody waits any more.
    std::optional<Outcome> outcome;
  };

  explicit Connection(mlxcomm_interrupt interrupt);
  Failure Reach(const mlxcomm_connect_options& options, queue::Dialed& dialed);
  Failure Map(queue::Dialed& dialed);
  // With wait_mutex_ held.
  void TakeCompletions();
  void Settle(const queue::CompletionEntry& entry);
  void LoseDaemon(const std::string& why);
  Failure PinRanges(const queue::SubmissionEntry& entry, Extent extent, Pending& pending);
  void UnpinRanges(const Pending& pending);
  void ReadOrSleep(std::unique_lock<std::mutex>& lock, std::uint64_t until_ns);
  bool Interrupted() const;

  int creator_pid_ = 0;
  int doorbell_ = -1;
  std::byte* arena_ = nullptr;
  std::uint64_t arena_bytes_ = 0;
  std::byte* queue_ = nullptr;
  std::unique_ptr<ArenaAllocator> allocator_;
  const mlxcomm_attach_table* attach_ = nullptr;
  mlxcomm_attachment* attachment_ = nullptr;
  mlxcomm_interrupt interrupt_{};
  std::uint64_t spin_ns_ = 0;

  std::mutex submit_mutex_;
  std::optional<queue::SubmissionProducer> submissions_;
  std::mutex wait_mutex_;
  std::condition_variable settled_;
  std::optional<queue::CompletionConsumer> completions_;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::uint64_t next_ticket_ = 1;
  bool reader_present_ = false;
  Failure lost_;  // Latched.
};

std::uint64_t NowNs();

}  // namespace mlxcomm::client
