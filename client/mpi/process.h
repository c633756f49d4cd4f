// This process's communicators: the world, and those split from it. README.md, "Exit", describes
// the exit handler.
//
// Owner: the process; never destroyed. Thread: any. Memory: an entry for each communicator.
#pragma once

#include <memory>

#include "client/mpi/communicator.h"
#include "client/mpi/open_mpi.h"

namespace mlxcomm::mpi {

// Connects and joins as the environment specifies; a second call does nothing. One rank needs no
// daemon. `caller`: an address in the calling library.
void Join(const void* caller);
// Leaves, unless a call is in progress or the process is exiting.
void Leave() noexcept;

class Call {
 public:
  // Throws for an unknown handle, and before Join. `name` is for messages.
  Call(MPI_Comm handle, const char* name);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const std::shared_ptr<Communicator>& on() const { return on_; }

 private:
  std::shared_ptr<Communicator> on_;
};

MPI_Comm Add(std::shared_ptr<Communicator> part);
bool Remove(MPI_Comm handle) noexcept;  // False if the handle is unknown.

}  // namespace mlxcomm::mpi
