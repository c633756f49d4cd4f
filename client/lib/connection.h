// One session with the daemon: its arena, and its three parts.
//
//   queue.h  the rings and the doorbell          pages.h  where ranks of this machine meet directly
//   calls.h  the operations in flight, and the threads that wait for them: uses the other two, and has
//            the mutex that guards all three
//
// Owner: the C handle. Thread: any. Memory: two mappings, and those of pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/lib/arena_allocator.h"
#include "client/lib/calls.h"
#include "client/lib/mapping.h"
#include "client/lib/mlxcomm.h"
#include "client/lib/pages.h"
#include "client/lib/queue.h"
#include "proto/queue/dial.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

struct Member {
  std::string node;
  std::uint64_t pid = 0;
};

struct GroupFacts {
  std::uint64_t id = 0;
  std::uint32_t rank = 0;
  std::uint64_t timeout_default_ns = 0;
  std::string name;
  std::vector<Member> members;  // In order of rank.
};

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

  // Calls to the daemon. A timeout of 0 is the daemon's default; named_by is AttachRequest's.
  Failure Join(const char* job, std::uint32_t rank, std::uint32_t size, std::uint64_t timeout_ns,
               const std::string& named_by, GroupFacts& facts);
  struct SplitCall {
    std::uint64_t parent = 0;
    std::uint64_t number = 0;
    std::span<const std::uint32_t> ranks;
    const char* name = "";
    std::uint32_t own_index = 0;  // This process's index in `ranks`.
  };
  Failure Split(const SplitCall& call, std::uint64_t timeout_ns, GroupFacts& facts);
  Failure Shrink(std::uint64_t group, std::uint64_t timeout_ns, GroupFacts& facts);
  void Release(std::uint64_t group);
  void Leave(const char* why);  // NULL: in order; otherwise because of that fault.

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
  Failure Made(int code, const mlxcomm_error& error);

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
