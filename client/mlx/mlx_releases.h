// Hides the differences between the supported releases of MLX (client/python/mlx_release.py),
// detected by what their headers declare.
#pragma once

#include <functional>
#include <utility>

#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/event.h"

namespace mlxcomm::graph {

// An MLX buffer and its deleter. From 0.32.4 on MLX takes both as one object.
struct GivenData {
  mlx::core::allocator::Buffer buffer;
  std::function<void(mlx::core::allocator::Buffer)> end;
};

template <typename Array>
concept TakesOneObject = requires(Array array, GivenData data) {
  array.set_data(typename Array::Data(data.buffer, data.end));
};

template <typename Array>
void SetData(Array& array, GivenData data) {
  if constexpr (TakesOneObject<Array>) {
    array.set_data(typename Array::Data(data.buffer, std::move(data.end)));
  } else {
    array.set_data(data.buffer, std::move(data.end));
  }
}

template <typename Array = mlx::core::array>
Array ArrayOf(GivenData data, mlx::core::Shape shape, mlx::core::Dtype type) {
  if constexpr (TakesOneObject<Array>) {
    return Array(typename Array::Data(data.buffer, std::move(data.end)), std::move(shape), type);
  } else {
    return Array(data.buffer, std::move(shape), type, std::move(data.end));
  }
}

// From 0.32.1 on the evaluation rethrows what a stream's task threw; before that, the process
// terminates.
template <typename Event = mlx::core::Event>
concept ThrowsWhatTasksThrow = requires(Event event) { event.check_error(); };

}  // namespace mlxcomm::graph
