// A group of ranks as MPI's functions use it: buffers anywhere, every call waits.
//
//   program's buffer ──copy──▶ arena ══ daemon ══▶ arena ──copy──▶ program's buffer
//   a buffer of the arena goes as it is
//
// An operator that the daemon does not have is an all_gather, with the program's function applied
// to the blocks in order of rank, for n times the memory. A communicator of one rank has no group:
// the output is the input.
//
// Owner: process.h's table and the calls under way, together. Thread: any. Memory: during a call a
// range of the arena for each buffer that is not in it.
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
  Communicator() = default;  // This rank alone.
  Communicator(std::shared_ptr<Connection> connection, Group group,
               std::shared_ptr<Communicator> whole)
      : connection_(std::move(connection)), whole_(std::move(whole)), group_(std::move(group)) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  std::uint32_t rank() const { return group_ ? group_->rank() : 0; }
  std::uint32_t size() const { return group_ ? group_->size() : 1; }

  // All throw mlxcomm::Error. `input` may equal `output` where a reduction is in place.
  void AllReduce(const void* input, void* output, std::uint64_t count, const Type& type,
                 const Operator& op, MPI_Datatype handle);
  void AllGather(const void* input, void* output, std::uint64_t count, const Type& type);
  // Returns once the payload lies in the arena (client/lib/pending_sends.h).
  void Send(const void* input, std::uint64_t count, const Type& type, std::uint32_t to);
  void Receive(void* output, std::uint64_t count, const Type& type, std::uint32_t from);
  // A negative color: this rank alone. `self` is this one, which outlives its parts.
  static std::shared_ptr<Communicator> Split(const std::shared_ptr<Communicator>& self, int color,
                                             int key);

 private:
  bool InArena(const void* data, std::uint64_t bytes) const {
    return mlxcomm_in_arena(connection_->get(), data, bytes) != 0;
  }
  void Reduce(const void* input, void* output, std::uint64_t count, const Type& type,
              mlxcomm_operator op);
  void Fold(const void* input, void* output, std::uint64_t count, const Type& type,
            MPI_User_function* function, MPI_Datatype handle);

  // In reverse order of destruction.
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Communicator> whole_;
  std::optional<Group> group_;
};

}  // namespace mlxcomm::mpi
