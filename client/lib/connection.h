// One session with the daemon: its arena, and its three parts.
//
//   queue.h  the rings and the doorbell          pages.h  where ranks of this machine meet directly
//   calls.h  submits operations and waits for them (in_flight.h): uses the other two, and has the
//            mutex that guards all three
//
// Owner: the C handle. Thread: any. Memory: two mappings, and those of pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "client/lib/arena_allocator.h"
#include "client/lib/attach_table.h"
#include "client/lib/calls.h"
#include "client/lib/mapping.h"
#include "client/lib/mlxcomm.h"
#include "client/lib/pages.h"
#include "client/lib/queue.h"
#include "proto/queue/dial.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

class Connection {
 public:
  static Failure Open(const mlxcomm_connect_options& options, std::unique_ptr<Connection>& out);
  ~Connection();

  Calls& calls() { return calls_; }
  const ArenaAllocator& arena() const { return allocator_; }
  std::byte* arena_data() const { return arena_.get(); }
  bool Contains(const void* data, std::uint64_t bytes) const;
  std::uint64_t OffsetOf(const void* data) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - arena_data());
  }

  // Calls to the daemon (attach_table.h).
  Failure Join(JoinCall call, GroupFacts& facts);
  Failure Split(const SplitCall& call, GroupFacts& facts);
  Failure Shrink(std::uint64_t group, std::uint64_t timeout_ns, GroupFacts& facts);
  void Release(std::uint64_t group);
  void Leave(const char* why);  // NULL for a normal end, otherwise the fault that caused it.

  void NoteCopiedResult(std::uint64_t bytes, std::uint64_t nanoseconds);

  // Chosen from the daemon's hello and this process's cores.
  const queue::SchedulingPolicy& scheduling() const { return scheduling_; }
  // The daemon ends with its last client, and another one is started for the next.
  bool is_private() const { return is_private_; }
  // False in a forked child, which must not touch the parent's locks and memory.
  bool usable() const;

 private:
  Connection(const queue::Dialed& dialed, bool is_private, Mapping arena, Mapping queue,
             const Control& control);

  const int creator_pid_;
  const bool is_private_;
  const queue::SchedulingPolicy scheduling_;
  const std::uint64_t rendezvous_timeout_ns_;  // The daemon's; 0: its hello had none.
  Control control_;
  Mapping arena_;
  Queue queue_;
  ArenaAllocator allocator_;
  Pages pages_;
  Calls calls_;
};

}  // namespace mlxcomm::client
