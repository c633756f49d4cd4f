// A table whose columns are as wide as their widest cell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/status/status_parts.h"

namespace mlxcomm::ctl {

class AlignedRows {
 public:
  static constexpr std::size_t kNoColour = ~std::size_t{0};
  using Row = std::vector<std::string>;

  void Add(Row row) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (std::size_t at = 0; at < row.size(); ++at) {
      widths_[at] = std::max(widths_[at], WidthOf(row[at]));
    }
    rows_.push_back(std::move(row));
  }
  std::size_t size() const { return rows_.size(); }
  std::size_t width() const {
    std::size_t width = 0;
    for (const std::size_t one : widths_) width += (width == 0 ? 0 : 2) + one;
    return width;
  }
  // `state` is the index of the coloured cell. No trailing blanks.
  std::string Line(std::size_t row, std::size_t state, const Painter& paint) const {
    std::string line;
    std::string blanks;
    for (std::size_t at = 0; at < rows_[row].size(); ++at) {
      const std::string& cell = rows_[row][at];
      if (!cell.empty()) {
        line += blanks + (at == state ? paint.State(cell) : cell);
        blanks.clear();
      }
      blanks += std::string(widths_[at] - WidthOf(cell) + 2, ' ');
    }
    return line;
  }

 private:
  std::vector<Row> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace mlxcomm::ctl
