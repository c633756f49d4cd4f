#include "client/mlx/crossings.h"

#include <cstdint>
#include <unordered_set>

#include "mlx/primitives.h"

namespace mlxcomm::graph {

std::size_t CountCrossings(const std::vector<mlx::core::array>& arrays) {
  using mlx::core::array;
  const auto is_to_come = [](const array& value) {
    return value.status() == array::Status::unscheduled && value.has_primitive();
  };
  std::unordered_set<std::uintptr_t> seen;
  std::unordered_set<std::uintptr_t> handed_over;
  std::vector<array> left;
  const auto visit = [&](const array& value) {
    if (is_to_come(value) && seen.insert(value.id()).second) left.push_back(value);
  };
  for (const array& value : arrays) visit(value);
  while (!left.empty()) {
    array value = left.back();
    left.pop_back();
    for (const array& input : value.inputs()) {
      if (!is_to_come(input)) continue;
      if (input.primitive().stream() != value.primitive().stream()) handed_over.insert(input.id());
      visit(input);
    }
  }
  return handed_over.size();
}

}  // namespace mlxcomm::graph
