// Receives the events of each operation's life.
//
//   OnCalled, OnPeerFrame (any order) ─▶ OnMatched ─▶ OnMoved ... ─▶ OnEnded
//
// Called within the core's work, so it must not call the core, nor keep references.
#pragma once

#include <cstdint>

#include "daemon/collective/operation.h"
#include "proto/types/failure.h"
#include "proto/types/operation_key.h"

namespace mlxcomm::collective {

class OperationObserver {
 public:
  virtual ~OperationObserver() = default;

  // A local rank has called it. Operation::id belongs to it until OnEnded.
  virtual void OnCalled(const Operation& operation, const Operation::LocalCall& local) = 0;
  // A frame or grant from a node with this first rank; `operation` may be early.
  virtual void OnPeerFrame(const Operation& operation, std::uint16_t node,
                           std::uint32_t first_rank) = 0;
  // All local ranks have called it; its plan is made.
  virtual void OnMatched(const Operation& operation) = 0;
  virtual void OnMoved(const Operation& operation) = 0;
  // Its calls are answered; kNone: success.
  virtual void OnEnded(const Operation& operation, FailureCode code) = 0;
  // Once per group, with the error for its ranks; after the OnEnded of operations that could end at
  // once.
  virtual void OnGroupFailed(std::uint64_t group, const std::string& name, const Failure& verdict,
                             const OperationKey& operation) = 0;
};

}  // namespace mlxcomm::collective
