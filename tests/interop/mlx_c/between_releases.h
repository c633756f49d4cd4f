// What mlx-c 0.7.0, made for MLX 0.32.2, lacks when it is compiled for this one, by this compiler.
// Passed to the compiler by -include, for mlx-c alone.
#pragma once

#if __cplusplus >= 202002L  // CMake's compiler checks do not know MLX.

#include <optional>
#include <string>
#include <utility>
#include <version>

#include "mlx/ops.h"
#include "mlx/version.h"

// GCC's library has std::format from 13 on, and Debian 12 has 12: fmt's replaces it.
#if !defined(__cpp_lib_format)
#define FMT_HEADER_ONLY
#include <fmt/format.h>
namespace std {  // replaces a part of it.
using fmt::format;
}
#endif

// Later releases have one more argument, before the last two.
#if MLX_VERSION_NUMERIC >= 32004
namespace mlx::core {
inline array gather_qmm(const array& x, const array& w, const array& scales,
                        const std::optional<array>& biases, std::optional<array> lhs_indices,
                        std::optional<array> rhs_indices, bool transpose,
                        std::optional<int> group_size, std::optional<int> bits,
                        const std::string& mode, bool sorted_indices, StreamOrDevice s) {
  return gather_qmm(x, w, scales, biases, std::move(lhs_indices), std::move(rhs_indices), transpose,
                    group_size, bits, mode, std::nullopt, sorted_indices, s);
}
}  // namespace mlx::core
#endif

#endif
