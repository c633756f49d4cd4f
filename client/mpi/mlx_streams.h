// The streams of the MLX that called us: at the end of the process they run dry.
//
// A program may end with operations begun that MLX has not called yet (mx.async_eval; mlx-lm's
// generate always leaves one): MLX calls MPI when their turn comes, from threads of its own, and
// other ranks still need them. MPI does not know of them. So MLX is asked, by three functions of
// its public C++ interface (mlx/stream.h, mlx/scheduler.h), looked up in the library that called
// MPI_Init; where it does not have them, as in other releases, nothing is done.
//
// Owner: process.cc. Thread: Find, that of MPI_Init; RunDry, that of the exit handlers, and one of
// its own. Memory: three addresses.
#pragma once

#include <chrono>
#include <vector>

namespace mlxcomm::mpi {

class MlxStreams {
 public:
  // As MLX has it: passed by value, so its layout is part of the names' meaning.
  struct Stream {
    int index;
    int device_type;
    int device_index;
  };

  MlxStreams() = default;
  // In the library that contains `caller`. MLX's scheduler and its list of streams exist from then
  // on, so that exit handlers that are set later run before they are destroyed.
  static MlxStreams Find(const void* caller);

  // Waits at most this long until MLX has finished all its work. False: it has not.
  bool RunDry(std::chrono::seconds most) const;

 private:
  std::vector<Stream> (*get_streams_)() = nullptr;
  void (*synchronize_)(Stream) = nullptr;
};

}  // namespace mlxcomm::mpi
