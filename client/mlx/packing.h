// Many arrays as one, and back, so that one operation covers all of them: one submission to the
// daemon, one array that MLX passes to the operation's stream, and one back (CountCrossings), in
// place of one for each.
//
//   arrays ──Pack──▶ one array ──operation──▶ one array ──Unpack──▶ arrays
//          where they are computed          there too: views, nothing is copied
//
// On a CPU stream the packed array lies in the arena, where the daemon reads it, so that packing
// replaces the copy that each array would need anyway. On a GPU stream MLX concatenates.
//
// The packed array belongs to the one operation on it, which may overwrite it.
//
// Owner: the arrays. Thread: the caller's; evaluated by MLX. Memory: the arena's, or MLX's where
// the arena has no room or results are copied (result_memory.h). Unpacked arrays share one range,
// which is free when the last of them has gone.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "client/mlx/arena_arrays.h"
#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlxcomm::graph {

// The elements of `arrays`, one array after the other: shape (elements). The arrays have one dtype
// and together fewer than 2^31 elements. Gradients, jvp and vmap as of a concatenation.
mlx::core::array Pack(const std::vector<mlx::core::array>& arrays,
                      const std::shared_ptr<Connected>& connected);

std::vector<mlx::core::array> Unpack(const mlx::core::array& packed,
                                     const std::vector<mlx::core::Shape>& shapes);

// Arrays that are packed together, by their places in the list that was divided.
using Bucket = std::vector<std::size_t>;
// Divides arrays into buckets of one dtype each, in the order of their first ones. A bucket is
// closed once it has `bytes` or more (0: only where no more elements fit).
std::vector<Bucket> DivideIntoBuckets(const std::vector<mlx::core::array>& arrays,
                                      std::size_t bytes);

// How many arrays MLX will hand from one stream to another when these are evaluated. The caller must
// not evaluate meanwhile.
//
// Each is a crossing: the stream that computes the array signals, and the other waits. Between a
// GPU and a CPU stream, as with every operation of a model on a Mac's GPU, a crossing ends a
// command buffer and takes up to 180 us, so packing saves time. The rule is that of eval_impl in
// mlx/transforms.cpp of MLX 0.32.4: an input that is not evaluated yet and whose primitive runs on
// another stream gets a fence, one for all arrays that wait for it.
std::size_t CountCrossings(const std::vector<mlx::core::array>& arrays);

}  // namespace mlxcomm::graph
