// What standard output is: a terminal or not, how large, with colours or not.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlxcomm::ctl {

// A terminal that understands escape sequences.
bool IsScreen();
// On a screen, unless NO_COLOR is set and not empty (https://no-color.org).
bool ColoursWanted();

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};
// 80 x 24 where it is no terminal, or the terminal does not say.
TerminalSize SizeOfTerminal();

// How many columns the text takes, where each letter takes one; sequences for colours take none.
std::size_t WidthOf(std::string_view text);
// How many rows its lines take on a terminal of this width.
std::size_t RowsOf(std::string_view text, std::size_t columns);

}  // namespace mlxcomm::ctl
