#include "client/ctl/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace mlxcomm::ctl {

bool IsScreen() {
  const char* const kind = std::getenv("TERM");
  if (kind != nullptr && std::string_view(kind) == "dumb") return false;
  return ::isatty(STDOUT_FILENO) != 0;
}

bool ColoursWanted() {
  const char* const no = std::getenv("NO_COLOR");
  return (no == nullptr || no[0] == '\0') && IsScreen();
}

TerminalSize SizeOfTerminal() {
  TerminalSize size;
  winsize reported{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &reported) != 0) return size;
  if (reported.ws_col > 0) size.columns = reported.ws_col;
  if (reported.ws_row > 0) size.rows = reported.ws_row;
  return size;
}

std::size_t WidthOf(std::string_view text) {
  std::size_t width = 0;
  bool in_sequence = false;
  for (const char byte : text) {
    if (byte == '\x1b') in_sequence = true;
    const bool continues_a_letter = (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
    if (!in_sequence && !continues_a_letter) ++width;
    if (byte == 'm') in_sequence = false;
  }
  return width;
}

std::size_t RowsOf(std::string_view text, std::size_t columns) {
  std::size_t rows = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    rows += std::max<std::size_t>(1, (WidthOf(line) + columns - 1) / columns);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return rows;
}

}  // namespace mlxcomm::ctl
