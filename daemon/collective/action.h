// The requests of the collective core. The core calls no other part: each event appends actions to
// an ActionQueue, and the node executes them in order.
//
// Actions point to memory without touching it; pointers stay valid until the action's answer (see
// each kind).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/collective/call.h"
#include "daemon/collective/plan.h"
#include "daemon/reduce/kernels.h"
#include "proto/types/failure.h"
#include "proto/types/node_id.h"
#include "proto/types/operation_key.h"
#include "proto/wire/frame.h"

namespace mlxcomm::v1 {
class PeerMessage;
}

namespace mlxcomm::collective {

// Combines the inputs (a single one is copied) into every output.
struct LocalWork : reduce::Reduction {
  std::uint64_t elements = 0;
  std::uint64_t step_bytes = 0;  // Read and written by the whole step.
  std::uint32_t input_count = 0;
  std::uint32_t output_count = 0;
  std::array<const std::byte*, kLocalRanksMax> inputs{};
  std::array<std::byte*, kLocalRanksMax> outputs{};
};

struct Action {
  enum class Kind : std::uint8_t {
    kSend,           // frame, node, source. kData: + cookie. Answer: OnDataReleased(cookie); other
                     // payload is copied.
    kPostReceive,    // key, step, node, bytes, destination; if it reduces: operand, reduction,
                     // received_first. Answer: OnData for each chunk.
    kWithdraw,       // key, node. Answer: OnWithdrawn(node, key).
    kCancel,         // key, node. Answers: OnDataReleased for each frame still under way.
    kLocalWork,      // key, work, cookie. Answer: OnLocalWorkDone(cookie).
    kReturnScratch,  // destination: from ScratchMemory. Follows the frames sent from it.
    kComplete,       // session, ticket, key.group, failure, group_failed.
    kMessage,        // node, message: for OnReport, OnRollCall or OnDetached there.
    kGroupFailed,    // key.group: it starts to fail.
  };
  Kind kind = Kind::kComplete;
  bool group_failed = false;
  bool received_first = false;
  std::uint16_t step = 0;
  NodeId node;
  wire::FrameHeader frame;
  OperationKey key;
  std::uint64_t bytes = 0;
  std::uint64_t cookie = 0;
  const std::byte* source = nullptr;
  const std::byte* operand = nullptr;
  std::byte* destination = nullptr;
  reduce::Reduction reduction;
  const LocalWork* work = nullptr;  // Valid until OnLocalWorkDone(cookie).
  SessionId session = 0;
  std::uint64_t ticket = 0;
  Failure failure;
  std::shared_ptr<const v1::PeerMessage> message;  // Shared by all nodes.
};

using ActionQueue = std::vector<Action>;

}  // namespace mlxcomm::collective
