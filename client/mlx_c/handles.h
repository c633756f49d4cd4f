// Converts between mlx-c's handles and MLX's objects, as mlx-c does in headers that it does not
// install: a handle's ctx is a pointer to the object, which the handle owns, or null. tests/interop
// checks that.
#pragma once

#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "client/mlx/group_impl.h"
#include "mlx/array.h"
#include "mlx/c/array.h"
#include "mlx/c/distributed_group.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"
#include "mlx/distributed/distributed.h"
#include "mlx/utils.h"

namespace mlxcomm::mlx_c {

template <typename Handle>
inline constexpr bool kIsOnePointer =
    sizeof(Handle) == sizeof(void*) && std::is_same_v<decltype(Handle::ctx), void*>;
static_assert(kIsOnePointer<mlx_array> && kIsOnePointer<mlx_vector_array> &&
              kIsOnePointer<mlx_stream> && kIsOnePointer<mlx_distributed_group>);

// A C program may pass any number as an enumerator, and reading an invalid one is undefined in C++.
template <typename Enumeration>
int NumberOf(const Enumeration& value) {
  static_assert(std::is_enum_v<Enumeration> && sizeof(Enumeration) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// These throw std::invalid_argument for an empty handle, a null result or an unknown number.
const mlx::core::array& ArrayOf(mlx_array x);
const std::vector<mlx::core::array>& ArraysOf(mlx_vector_array xs);
mlx::core::Dtype TypeOf(int dtype);
// An empty handle gives MLX's default CPU stream.
mlx::core::StreamOrDevice StreamOf(mlx_stream s);
// Null if the handle is empty.
std::shared_ptr<mlx::core::distributed::detail::GroupImpl> GroupOrNull(mlx_distributed_group group);

// Returns the group of a call; for an empty handle the default, which the first such call joins.
// Null for a group of one rank. Throws std::invalid_argument for a group of MLX's own backends.
std::shared_ptr<graph::DaemonGroup> CalledGroup(const char* function, mlx_distributed_group group);

void CheckResult(const void* res);
void Set(mlx_array* res, mlx::core::array value);
void Set(mlx_vector_array* res, std::vector<mlx::core::array> value);
void Set(mlx_distributed_group* res,
         std::shared_ptr<mlx::core::distributed::detail::GroupImpl> value);
void SetEmpty(mlx_distributed_group* res);

}  // namespace mlxcomm::mlx_c
