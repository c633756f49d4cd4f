// Properties of standard output: terminal or not, its size, colours.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlxcomm::ctl {

// A terminal that understands escape sequences.
bool IsScreen();
// Respects NO_COLOR (https://no-color.org).
bool ColoursWanted();

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};
// 80 x 24 if standard output is not a terminal, or does not report its size.
TerminalSize SizeOfTerminal();

// The columns that the text takes, one per letter; colour sequences take none.
std::size_t WidthOf(std::string_view text);
// The rows that its lines take on a terminal of this width.
std::size_t RowsOf(std::string_view text, std::size_t columns);

}  // namespace mlxcomm::ctl
