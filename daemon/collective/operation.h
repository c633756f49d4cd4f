// One operation of a group on this node: its calls, early frames, and its execution once all have
// called.
//
//   (early: only frames of other nodes) ──first local call──▶ gathering
//        ──last local call──▶ running ──finished──▶ completed, recycled
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/collective/call.h"
#include "daemon/collective/execution.h"

namespace mlxcomm::collective {

struct Operation {
  explicit Operation(Group& group) : execution(group) {
    // Reserved in advance, because the first early frame may arrive at any time.
    early_grants.reserve(kEarlyUsual);
    early_eager.reserve(kEarlyUsual);
  }

  struct LocalCall {
    bool called = false;
    Call call;
    std::uint64_t submitted_ns = 0;
    std::uint64_t deadline_ns = 0;
    std::uint64_t asked_ns = 0;         // When its process last asked which rank it is waiting for;
                                        // 0 if never.
    std::string circle;                 // The last circle of waiting ranks that was found.
    std::vector<std::uint64_t> counts;  // Copied; empty for other kinds.

    // A send that its process has not asked about, and may not wait for.
    bool MayBeLeft() const { return call.signature.kind == OperationKind::kSend && asked_ns == 0; }
    // "all_gather_v float32 of [1, 2]": equal for all matching calls.
    std::string DescribeCommon() const;
    // " sending [1, 2], expecting [0, 5]" for an all_to_all_v, otherwise "".
    std::string DescribeOwn() const;
    std::string Describe() const { return DescribeCommon() + DescribeOwn(); }
  };
  // A ring of four grants 48 when it starts.
  static constexpr std::size_t kEarlyUsual = 64;
  struct EarlyGrant {
    std::uint16_t node;
    std::uint16_t tag;
  };
  struct EarlyEager {
    std::uint16_t node;
    std::uint16_t tag;
    std::uint64_t bytes;
    std::uint64_t check;
    std::int32_t stash;
  };

  std::uint32_t id = 0;  // Its index in the owner's table.
  bool in_use = false;
  bool early = false;  // No local rank has called it.
  OperationKey key;
  bool has_signature = false;
  Signature signature;              // Taken from the first local call.
  std::uint64_t remote_digest = 0;  // When the first early frame arrived; 0 if none.
  std::vector<LocalCall> calls;     // Indexed by local rank.
  std::uint32_t calls_awaited = 0;  // Local ranks still to call.
  bool running = false;
  std::uint64_t traffic_reported = 0;  // The last reported Execution::Traffic::changes,
  std::uint64_t traffic_seen = 0;      // the one at the last check for progress,
  std::uint64_t moved_ns = 0;          // and the time of the last progress.
  std::vector<EarlyGrant> early_grants;
  std::vector<EarlyEager> early_eager;
  Execution execution;

  void Reset() {
    in_use = false;
    early = false;
    has_signature = false;
    remote_digest = 0;
    for (LocalCall& local : calls) local.called = false;  // Tables keep their capacity.
    calls_awaited = 0;
    running = false;
    traffic_reported = 0;
    traffic_seen = 0;
    moved_ns = 0;
    early_grants.clear();
    early_eager.clear();
  }
};

}  // namespace mlxcomm::collective
