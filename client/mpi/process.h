// This process as a rank: the world, and the communicators that were split off.
//
//   (nothing) ──Join──▶ joined ──Leave──▶ (nothing)        the end of the process: Exit
//
// README.md, The end, says what the exit handler does, which is set after everything was loaded. From
// then on nothing is touched.
//
// Owner: the process; never destroyed. Thread: any. Memory: an entry for each communicator.
#pragma once

#include <memory>

#include "client/mpi/communicator.h"
#include "client/mpi/open_mpi.h"

namespace mlxcomm::mpi {

// Connects and joins, by the environment; a second call does nothing. For one rank there is no
// daemon. Throws the error that MLX should show. `caller`: an address in the calling library.
void Join(const void* caller);
// Leaves, unless a call is under way or the process ends.
void Leave() noexcept;

class Call {
 public:
  // Throws for an unknown handle, and before Join. `name` is for the message.
  Call(MPI_Comm handle, const char* name);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const std::shared_ptr<Communicator>& on() const { return on_; }

 private:
  std::shared_ptr<Communicator> on_;
};

MPI_Comm Add(std::shared_ptr<Communicator> part);
bool Remove(MPI_Comm handle) noexcept;  // False: not a handle of Add's.

}  // namespace mlxcomm::mpi
