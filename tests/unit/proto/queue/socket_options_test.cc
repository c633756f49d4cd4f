// The process at the other end of a Unix socket.
#include "proto/queue/socket_options.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::queue::socket_options_test {
namespace {

TEST(PeerCredentialsTest, NamesUserAndProcess) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor one(ends[0]);
  const FileDescriptor other(ends[1]);
  const std::optional<PeerCredentials> credentials = FindPeer(one.get());
  ASSERT_TRUE(credentials) << std::strerror(errno);
  EXPECT_EQ(credentials->uid, ::geteuid());
  EXPECT_EQ(credentials->gid, ::getegid());
  EXPECT_EQ(credentials->pid, ::getpid());
}

TEST(PeerCredentialsTest, FailsIfItIsNotASocket) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const FileDescriptor one(ends[0]);
  const FileDescriptor other(ends[1]);
  EXPECT_FALSE(FindPeer(one.get()));
}

}  // namespace
}  // namespace mlxcomm::queue::socket_options_test
