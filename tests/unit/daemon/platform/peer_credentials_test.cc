// The process at the other end of a Unix socket.
#include "daemon/platform/peer_credentials.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform::peer_credentials_test {
namespace {

TEST(PeerCredentialsTest, NamesUserAndProcess) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor one(ends[0]);
  const FileDescriptor other(ends[1]);
  const absl::StatusOr<PeerCredentials> credentials = GetPeerCredentials(one.get());
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->uid, ::geteuid());
  EXPECT_EQ(credentials->gid, ::getegid());
  EXPECT_EQ(credentials->pid, ::getpid());
}

TEST(PeerCredentialsTest, FailsOnWhatIsNoSocket) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const FileDescriptor one(ends[0]);
  const FileDescriptor other(ends[1]);
  EXPECT_FALSE(GetPeerCredentials(one.get()).ok());
}

}  // namespace
}  // namespace mlxcomm::platform::peer_credentials_test
