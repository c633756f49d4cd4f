// A group of ranks for MPI's functions, which take buffers anywhere and block.
//
//   program's buffer ──copy──▶ arena ══ daemon ══▶ arena ──copy──▶ program's buffer
//
// An operator that the daemon does not have is an all_gather, then the program's function applied
// to the blocks in order of rank. A communicator of one rank has no group: the output is the input.
//
// Owner: process.h's table and the calls in progress, together. Thread: any. Memory: during a call,
// a range of the arena for each buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "client/lib/mlxcomm.hpp"
#include "client/mpi/handles.h"

namespace mlxcomm::mpi {

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator() = default;  // Only this rank.
  Communicator(std::shared_ptr<Connection> connection, Group group,
               std::shared_ptr<Communicator> whole)
      : connection_(std::move(connection)), whole_(std::move(whole)), group_(std::move(group)) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::uint32_t rank() const { return group_ ? group_->rank() : 0; }
  std::uint32_t size() const { return group_ ? group_->size() : 1; }

  // All throw mlxcomm::Error. A reduction may be in place.
  void AllReduce(const void* input, void* output, std::uint64_t count, const Type& type,
                 const Operator& op, MPI_Datatype handle);
  void AllGather(const void* input, void* output, std::uint64_t count, const Type& type);
  // Returns once the payload is in the arena (client/lib/pending_sends.h).
  void Send(const void* input, std::uint64_t count, const Type& type, std::uint32_t to);
  void Receive(void* output, std::uint64_t count, const Type& type, std::uint32_t from);
  // A negative color gives a communicator of this rank. `self` is this one; its parts keep it
  // alive.
  static std::shared_ptr<Communicator> Split(const std::shared_ptr<Communicator>& self, int color,
                                             int key);

 private:
  void Reduce(const void* input, void* output, std::uint64_t count, const Type& type,
              mlxcomm_operator op);
  void Fold(const void* input, void* output, std::uint64_t count, const Type& type,
            MPI_User_function* function, MPI_Datatype handle);

  // Declared in reverse order of destruction.
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Communicator> whole_;
  std::optional<Group> group_;
};

}  // namespace mlxcomm::mpi
