// One owner for each descriptor.
#include "proto/system/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace mlxcomm::file_descriptor_test {
namespace {

bool IsOpen(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST(FileDescriptorTest, ClosesAtItsEndUnlessReleased) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    const FileDescriptor closed(ends[0]);
    FileDescriptor released(ends[1]);
    EXPECT_EQ(released.Release(), ends[1]);
    EXPECT_FALSE(released.valid());
  }
  EXPECT_FALSE(IsOpen(ends[0]));
  EXPECT_TRUE(IsOpen(ends[1]));
  ::close(ends[1]);
}

TEST(FileDescriptorTest, MovesItsOwnership) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  FileDescriptor first(ends[0]);
  FileDescriptor second(ends[1]);
  second = std::move(first);
  EXPECT_FALSE(IsOpen(ends[1]));
  EXPECT_EQ(second.get(), ends[0]);
  const FileDescriptor third(std::move(second));
  EXPECT_TRUE(IsOpen(ends[0]));
  EXPECT_EQ(third.get(), ends[0]);
}

}  // namespace
}  // namespace mlxcomm::file_descriptor_test
