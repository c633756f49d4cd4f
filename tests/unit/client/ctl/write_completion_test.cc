// What the scripts do in their shells is tests/shell/test_completion.py's; here is what they
// must not do whatever descriptions hold.
#include "client/ctl/write_completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::ctl::write_completion_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Command Table(const std::string& description) {
  Command verb;
  verb.path = verb.name = "verb";
  verb.description = description;
  CommandOption option;
  option.names = {"-n", "--number"};
  option.description = description;
  option.takes_value = true;
  verb.options.push_back(option);
  Command top;
  top.commands.push_back(verb);
  return top;
}

// Why: a description is text of ours, but a quote in it would end the script's own quoting,
// and what follows would be run.
TEST(WriteCompletionTest, QuotesWhatDescriptionsHold) {
  const Command table = Table("the daemon's $(touch x) `y` \\");
  EXPECT_THAT(ZshCompletion(table), HasSubstr("'verb:the daemon'\\''s $(touch x) `y` \\'"));
  EXPECT_THAT(FishCompletion(table), HasSubstr("'the daemon\\'s $(touch x) `y` \\\\'"));
  EXPECT_THAT(BashCompletion(table), Not(HasSubstr("touch")));
}

TEST(WriteCompletionTest, StepsOverTheValueOfEveryNameOfAnOption) {
  const Command table = Table("text");
  EXPECT_THAT(BashCompletion(table), HasSubstr("'verb:-n'|'verb:--number') ((++i))"));
  EXPECT_THAT(ZshCompletion(table), HasSubstr("'verb:-n'|'verb:--number') ((++i))"));
  EXPECT_THAT(FishCompletion(table), HasSubstr("case 'verb:-n'\n        set skip 1"));
}

}  // namespace
}  // namespace mlxcomm::ctl::write_completion_test
