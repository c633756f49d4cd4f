// A group that this process has joined, closed with its last owner or when the process exits
// (process_end.h). It keeps its parent alive, because mlxcomm.h requires that parts are closed
// first.
//
// Owner: mx.distributed.Group, primitives and running tasks, together. Thread: any. Memory: the
// handle.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "client/lib/mlxcomm.h"
#include "client/mlx/arena_arrays.h"
#include "client/mlx/call_check.h"
#include "client/mlx/process_end.h"

namespace mlxcomm::graph {

struct JoinedGroup {
  JoinedGroup(std::shared_ptr<Connected> on, mlxcomm_group* joined,
              std::shared_ptr<JoinedGroup> part_of = nullptr)
      : connected(std::move(on)),
        parent(std::move(part_of)),
        group(joined),
        rank_(mlxcomm_rank(joined)),
        size_(mlxcomm_size(joined)) {}
  ~JoinedGroup() {
    if (!ProcessHasEnded()) mlxcomm_group_close(group);
  }
  JoinedGroup(const JoinedGroup&) = delete;
  JoinedGroup& operator=(const JoinedGroup&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }

  std::shared_ptr<Connected> connected;
  std::shared_ptr<JoinedGroup> parent;
  mlxcomm_group* group;
  CallNumbers call_numbers;

 private:
  std::uint32_t rank_;
  std::uint32_t size_;
};

}  // namespace mlxcomm::graph
