// How many arrays MLX will hand from one stream to another when some are evaluated.
//
// Each is a crossing: the stream that computes the array signals, and the other waits. Between a
// GPU and a CPU stream, as with every operation of a model on a Mac's GPU, a crossing ends a
// command buffer and takes up to 180 us, so packing saves time (packing.h). The rule is that of
// eval_impl in mlx/transforms.cpp of MLX 0.32.4: an input that is not evaluated yet and whose
// primitive runs on another stream gets a fence, one for all arrays that wait for it.
//
// Thread: the caller's, which must not evaluate meanwhile. Memory: while it counts, a word for each
// array of the graph.
#pragma once

#include <cstddef>
#include <vector>

#include "mlx/array.h"

namespace mlxcomm::graph {

std::size_t CountCrossings(const std::vector<mlx::core::array>& arrays);

}  // namespace mlxcomm::graph
