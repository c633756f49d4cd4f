// All that is known about an enumeration's values, a row for each: found by number, as in an array,
// or by name.
//
// A row has `value` and `name`. Rows stand in the order of their numbers, without a gap; a mistake
// there does not compile.
//
// Owner: the constant that it is declared as. Thread: any. Memory: the rows.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "proto/types/invariant.h"

namespace mlxcomm {

template <typename Row, std::size_t kRows>
class ValueTable {
 public:
  using Value = decltype(Row::value);

  consteval explicit ValueTable(const std::array<Row, kRows>& rows) : rows_(rows) {
    for (std::size_t i = 0; i < kRows; ++i) {
      MLXCOMM_INVARIANT(static_cast<std::size_t>(rows_[i].value) == First() + i);
    }
  }

  // nullptr: no such value, such as a number that another process made up.
  constexpr const Row* Find(Value value) const {
    const std::size_t index = static_cast<std::size_t>(value) - First();
    return index < kRows ? &rows_[index] : nullptr;
  }
  constexpr const Row* FindNamed(std::string_view name) const {
    for (const Row& row : rows_) {
      if (name == row.name) return &row;
    }
    return nullptr;
  }
  // Total: "unknown" for a number that is no value.
  constexpr const char* NameOf(Value value) const {
    const Row* const row = Find(value);
    return row == nullptr ? "unknown" : row->name;
  }
  // Above all numbers, for who has a place for each.
  constexpr std::size_t number_end() const { return First() + kRows; }
  template <typename Visit>
  constexpr void ForEach(Visit visit) const {
    for (const Row& row : rows_) visit(row);
  }
  // "sum, prod, min" with the separator ", ", of the rows that are wanted.
  template <typename IsWanted>
  std::string NamesWhere(std::string_view separator, IsWanted is_wanted) const {
    std::string names;
    ForEach([&](const Row& row) {
      if (!is_wanted(row)) return;
      if (!names.empty()) names += separator;
      names += row.name;
    });
    return names;
  }
  // Zero is no choice (no operator, no forced plan), and is left out.
  std::string Names(std::string_view separator) const {
    return NamesWhere(separator,
                      [](const Row& row) { return static_cast<std::size_t>(row.value) != 0; });
  }

 private:
  constexpr std::size_t First() const { return static_cast<std::size_t>(rows_.front().value); }

  std::array<Row, kRows> rows_;
};

}  // namespace mlxcomm
