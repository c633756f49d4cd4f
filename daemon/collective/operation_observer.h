// Is told of the life of each operation as it happens: for whoever wants to see what the
// core does without the core knowing what for. It changes nothing.
//
//   OnCalled, OnHeard (any order) ─▶ OnMatched ─▶ OnMoved ... ─▶ OnEnded
//
// Owner: Node; outlives the core. Thread: the loop's, in the middle of the core's work,
// so nothing of the core may be called from it. Memory: names nothing beyond the call.
#pragma once

#include <cstdint>

#include "daemon/collective/operation.h"
#include "proto/types/failure.h"
#include "proto/types/operation_key.h"

namespace mlxcomm::collective {

class OperationObserver {
 public:
  virtual ~OperationObserver() = default;

  // A rank of this node has called it. Operation::id is its own until OnEnded.
  virtual void OnCalled(const Operation& operation, const Operation::LocalCall& local) = 0;
  // A frame or grant of the node whose first rank that is; `operation` may be early.
  virtual void OnHeard(const Operation& operation, std::uint16_t node,
                       std::uint32_t first_rank) = 0;
  // All ranks of this node have called it; its plan is made.
  virtual void OnMatched(const Operation& operation) = 0;
  // Execution::traffic() has changed.
  virtual void OnMoved(const Operation& operation) = 0;
  // Its calls are being answered; kNone: with success.
  virtual void OnEnded(const Operation& operation, FailureCode code) = 0;
  // Once a group, with what its ranks are told; after the OnEnded of what could end at once.
  virtual void OnGroupFailed(std::uint64_t group, const std::string& name, const Failure& verdict,
                             const OperationKey& operation) = 0;
};

}  // namespace mlxcomm::collective
