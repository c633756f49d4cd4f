// What standard output is: a terminal or not, how large, with colours or not.
//
// Thread: main.
#pragma once

#include <cstddef>

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

}  // namespace mlxcomm::ctl
