// The streams of the MLX that called us: at the end of the process they are let run dry.
//
// A program may end with operations begun and not yet called here (mx.async_eval, as mlx-lm's generate
// always leaves one): MLX calls MPI when their turn comes, from threads of its own, and other ranks
// still need them. Nothing that MPI knows of tells that there are any. So MLX is asked, by three
// functions of its public C++ interface (mlx/stream.h, mlx/scheduler.h), looked up in the very library
// that called MPI_Init; where it does not have them, as an older or a later one may, nothing is done.
//
// Owner: process.cc. Thread: of Find, that of MPI_Init; of RunDry, that of the exit handlers, and one of
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
  // Of the library in which `caller` lies. MLX's scheduler and its list of streams exist from then on,
  // so that exit handlers set later than this come before their end.
  static MlxStreams Find(const void* caller);

  // Waits until all that MLX has been given has been done, for at most so long. False: it has not.
  bool RunDry(std::chrono::seconds most) const;

 private:
  std::vector<Stream> (*get_streams_)() = nullptr;
  void (*synchronize_)(Stream) = nullptr;
};

}  // namespace mlxcomm::mpi
