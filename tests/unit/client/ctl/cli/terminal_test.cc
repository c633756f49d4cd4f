// With a terminal: tests/shell/test_colours.py.
#include "client/ctl/cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace mlxcomm::ctl::terminal_test {
namespace {

TEST(TerminalTest, WantsNoColoursWhereSomethingSaysSo) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(ColoursWanted());
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ColoursWanted());
  ::setenv("TERM", "xterm", 1);
  EXPECT_EQ(ColoursWanted(), ::isatty(STDOUT_FILENO) != 0);
}

}  // namespace
}  // namespace mlxcomm::ctl::terminal_test
