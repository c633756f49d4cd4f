// What standard output is: a terminal or not, how large, with colours or not.
//
// Thread: main.
#pragma once

#include <cstddef>

namespace mlxcomm::ctl {

// On a terminal that has them, unless NO_COLOR is set and not empty (https://no-color.org).
bool ColoursWanted();

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};
// That of a terminal which does not say, and of what is none: the usual one.
TerminalSize SizeOfTerminal();

}  // namespace mlxcomm::ctl
