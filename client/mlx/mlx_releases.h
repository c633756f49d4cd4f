// What differs between the releases of MLX that this is built for (client/python/mlx_release.py), by
// what their headers declare. Each part can go with the last release that needs it.
#pragma once

#include <functional>
#include <utility>

#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/event.h"

namespace mlxcomm::graph {

// A buffer of MLX's, and what ends it. From 0.32.4 on MLX takes both as one object.
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

// Whether the evaluation throws what a stream's task has thrown: from 0.32.1 on. Before, the process ends.
template <typename Event = mlx::core::Event>
concept ThrowsWhatTasksThrow = requires(Event event) { event.check_error(); };

}  // namespace mlxcomm::graph
