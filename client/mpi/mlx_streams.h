// Waits at exit until the calling MLX has finished its streams' work. A program may exit with operations
// queued that MLX has not passed to MPI yet (mx.async_eval), and other ranks still need them. This uses three
// functions of MLX's public C++ interface (mlx/stream.h, mlx/scheduler.h), found in the library that called
// MPI_Init; without them it does nothing.
//
// Owner: process.cc. Thread: Find on MPI_Init's, AwaitEnd on that of the exit handlers. Memory: three
// addresses.
#pragma once

#include <chrono>
#include <vector>

namespace mlxcomm::mpi {

class MlxStreams {
 public:
  // MLX's layout, because it is passed by value.
  struct Stream {
    int index;
    int device_type;
    int device_index;
  };

  MlxStreams() = default;
  // Looks in the library that contains `caller`. This creates MLX's scheduler and list of streams, so that
  // exit handlers registered later run before these are destroyed.
  static MlxStreams Find(const void* caller);

  // Waits at most this long, and returns whether MLX has finished.
  bool AwaitEnd(std::chrono::seconds most) const;

 private:
  std::vector<Stream> (*get_streams_)() = nullptr;
  void (*synchronize_)(Stream) = nullptr;
};

}  // namespace mlxcomm::mpi
