// The rows for which whole lines are worth a copy.
#include "daemon/reduce/row.h"

#include <gtest/gtest.h>

#include <vector>

namespace mlxcomm::reduce::whole_lines_test {
namespace {

// A row of this many bytes, with its own buffers; only their addresses matter.
class WholeLinesTest : public testing::Test {
 protected:
  bool Can(std::size_t bytes) {
    const Row row{inputs.data(), inputs.size(), outputs.data(), outputs.size(), bytes, 1, false};
    return CanStoreWholeLines(DataType::kUint8, row);
  }
  std::byte memory[4] = {};
  std::vector<const std::byte*> inputs = {&memory[0], &memory[1]};
  std::vector<std::byte*> outputs = {&memory[2], &memory[3]};
};

// Why: otherwise results would be right, but slow.
TEST_F(WholeLinesTest, AreForLargeRowsIfTheProcessorCopiesWithoutFetching) {
#if defined(__x86_64__)
  if (!Can(64 * 1024)) GTEST_SKIP() << "this processor has no fast string copies (ERMS)";
  EXPECT_TRUE(Can(8 * 1024));
  EXPECT_FALSE(Can(8 * 1024 - 1)) << "short";
#else
  EXPECT_FALSE(Can(64 * 1024)) << "a copy gains nothing";
#endif
}

TEST_F(WholeLinesTest, AreNotForFetchedOutputsNorForNone) {
  outputs[1] = &memory[0];
  EXPECT_FALSE(Can(64 * 1024)) << "in place";
  outputs[1] = &memory[3];
  inputs.resize(65, &memory[0]);
  EXPECT_FALSE(Can(64 * 1024)) << "more inputs than a chunk has places";
  inputs.resize(2);
  outputs.clear();
  EXPECT_FALSE(Can(64 * 1024)) << "no output";
}

}  // namespace
}  // namespace mlxcomm::reduce::whole_lines_test
