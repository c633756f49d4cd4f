// Gets the events of each operation's life as they happen: for parts that follow the core's work
// without the core knowing why. It changes nothing.
//
//   OnCalled, OnHeard (any order) ─▶ OnMatched ─▶ OnMoved ... ─▶ OnEnded
//
// Owner: Node; outlives the core. Thread: the loop's, in the middle of the core's work, so it must
// not call the core. Memory: keeps no names beyond the call.
#pragma once

#include <cstdint>

#include "daemon/collective/operation.h"
#include "proto/types/failure.h"
#include "proto/types/operation_key.h"

namespace mlxcomm::collective {

class OperationObserver {
 public:
  virtual ~OperationObserver() = default;

  // A rank of this node has called it. Operation::id belongs to it until OnEnded.
  virtual void OnCalled(const Operation& operation, const Operation::LocalCall& local) = 0;
  // A frame or grant of a node, by its first rank; `operation` may be early.
  virtual void OnHeard(const Operation& operation, std::uint16_t node,
                       std::uint32_t first_rank) = 0;
  // All ranks of this node have called it; its plan is made.
  virtual void OnMatched(const Operation& operation) = 0;
  // Execution::traffic() has changed.
  virtual void OnMoved(const Operation& operation) = 0;
  // Its calls are being answered; kNone: with success.
  virtual void OnEnded(const Operation& operation, FailureCode code) = 0;
  // Once for each group, with the error that its ranks get; after the OnEnded of operations that
  // could end at once.
  virtual void OnGroupFailed(std::uint64_t group, const std::string& name, const Failure& verdict,
                             const OperationKey& operation) = 0;
};

}  // namespace mlxcomm::collective
