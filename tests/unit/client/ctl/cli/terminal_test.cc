// With a terminal: tests/shell/test_colours.py.
#include "client/ctl/cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace mlxcomm::ctl::terminal_test {
namespace {

TEST(TerminalTest, HasNoColoursIfTheEnvironmentForbidsThem) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(ColoursWanted());
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ColoursWanted());
  ::setenv("TERM", "xterm", 1);
  EXPECT_EQ(ColoursWanted(), ::isatty(STDOUT_FILENO) != 0);
}

TEST(TerminalTest, CountsTheRowsOfWrappedLines) {
  EXPECT_EQ(RowsOf("", 4), 0u);
  EXPECT_EQ(RowsOf("a\n\nb", 4), 3u);
  EXPECT_EQ(RowsOf("abcd\n", 4), 1u);
  EXPECT_EQ(RowsOf("abcde\nabcdefghi\n", 4), 5u);
  EXPECT_EQ(RowsOf("\x1b[31mabcd\x1b[0m\n", 4), 1u);
}

}  // namespace
}  // namespace mlxcomm::ctl::terminal_test
