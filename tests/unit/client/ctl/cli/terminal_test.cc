// With a terminal: tests/shell/test_colours.py.
#include "client/ctl/cli/terminal.h"

#include <gtest/gtest.h>

namespace mlxcomm::ctl::terminal_test {
namespace {

TEST(TerminalTest, CountsTheRowsOfWrappedLines) {
  EXPECT_EQ(RowsOf("", 4), 0u);
  EXPECT_EQ(RowsOf("a\n\nb", 4), 3u);
  EXPECT_EQ(RowsOf("abcd\n", 4), 1u);
  EXPECT_EQ(RowsOf("abcde\nabcdefghi\n", 4), 5u);
  EXPECT_EQ(RowsOf("\x1b[31mabcd\x1b[0m\n", 4), 1u);
}

}  // namespace
}  // namespace mlxcomm::ctl::terminal_test
