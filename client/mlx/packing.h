// Packs many arrays into one, so that one operation covers all of them, and MLX passes one array to
// the operation's stream and one back (CountCrossings).
//
//   arrays ──Pack──▶ one array ──operation──▶ one array ──Unpack──▶ arrays (views)
//
// On a CPU stream the packed array is in the arena, so packing replaces the copy that each input
// needs, and the operation may overwrite it. On a GPU stream, and while a transformation traces the
// arrays, MLX concatenates.
//
// Owner: the arrays. Thread: the caller's; evaluated by MLX. Memory: the arena's, or MLX's if the
// arena is full or results are copied (result_memory.h). Unpacked arrays share one range.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "client/mlx/arena_arrays.h"
#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlxcomm::graph {

// Concatenates the elements of `arrays`, which have one dtype and fewer than 2^31 elements in
// total. Gradients, jvp and vmap are those of a concatenation.
mlx::core::array Pack(const std::vector<mlx::core::array>& arrays,
                      const std::shared_ptr<Connected>& connected);

std::vector<mlx::core::array> Unpack(const mlx::core::array& packed,
                                     const std::vector<mlx::core::Shape>& shapes);

// Indices of the arrays that are packed together.
using Bucket = std::vector<std::size_t>;
// Divides arrays into buckets of one dtype, ordered by their first array. A bucket is full at
// `bytes` or more (0: only when no more elements fit).
std::vector<Bucket> DivideIntoBuckets(const std::vector<mlx::core::array>& arrays,
                                      std::size_t bytes);

// Counts the arrays that MLX will pass from one stream to another when these are evaluated. The
// caller must not evaluate anything until then. Between a GPU and a CPU stream such a crossing ends
// a command buffer and takes up to 180 us. The rule is that of eval_impl in mlx/transforms.cpp of
// MLX 0.32.4: an unevaluated input whose primitive runs on another stream gets one fence.
std::size_t CountCrossings(const std::vector<mlx::core::array>& arrays);

}  // namespace mlxcomm::graph
