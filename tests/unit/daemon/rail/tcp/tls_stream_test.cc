// Two ends of TLS, and a test between them that holds both cables.
#include "daemon/rail/tcp/tls_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/queue/doorbell.h"
#include "proto/system/file_descriptor.h"
#include "tests/unit/daemon/fabric/some_keys.h"

namespace mlxcomm::rail::tls_stream_test {
namespace {

using Progress = TlsStream::Progress;

struct Cable {
  Cable() {
    int ends[2];
    EXPECT_TRUE(queue::MakeDoorbellPair(ends));
    near.Reset(ends[0]);
    far.Reset(ends[1]);
  }
  FileDescriptor near, far;
};

std::string Take(int socket) {
  std::string all;
  char bytes[65536];
  for (ssize_t got = 0; (got = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) {
    all.append(bytes, static_cast<std::size_t>(got));
  }
  return all;
}

void Put(int socket, const std::string& bytes) {
  ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// The dialer's cable ends at `dialers.far`, the acceptor's at `acceptors.far`; the test is in
// between.
class TlsStreamTest : public testing::Test {
 protected:
  static DerivedKey TlsKey(std::uint8_t number) { return fabric::KeyOf(number).Derive("rail"); }
  void Make(std::uint8_t dialers_key = 7, std::uint8_t acceptors_key = 7,
            std::uint64_t records_per_key = TlsStream::kRecordsPerKey) {
    dialer_ = *TlsStream::Create(Role::kDialer, TlsKey(dialers_key), records_per_key);
    acceptor_ = *TlsStream::Create(Role::kAcceptor, TlsKey(acceptors_key), records_per_key);
  }
  // Forwards the bytes that wait at one end, unchanged.
  void Relay() {
    Put(acceptors_.far.get(), Take(dialers_.far.get()));
    Put(dialers_.far.get(), Take(acceptors_.far.get()));
  }
  int near_dialer() const { return dialers_.near.get(); }
  int near_acceptor() const { return acceptors_.near.get(); }
  // Runs until both are done or one has failed; returns their last statuses.
  std::pair<absl::Status, absl::Status> Shake() {
    for (int round = 0; round < 10; ++round) {
      const absl::StatusOr<Progress> one = dialer_->Handshake(near_dialer());
      Relay();
      const absl::StatusOr<Progress> other = acceptor_->Handshake(near_acceptor());
      Relay();
      const bool done =
          one.ok() && other.ok() && *one == Progress::kDone && *other == Progress::kDone;
      if (done || !one.ok() || !other.ok()) return {one.status(), other.status()};
    }
    return {absl::DeadlineExceededError("no end"), absl::DeadlineExceededError("no end")};
  }
  void MakeAndShake(std::uint64_t records_per_key = TlsStream::kRecordsPerKey) {
    Make(7, 7, records_per_key);
    const auto [one, other] = Shake();
    ASSERT_TRUE(one.ok() && other.ok()) << one << other;
  }
  static ssize_t Write(TlsStream& stream, int socket, std::vector<std::string> texts) {
    std::vector<iovec> parts;
    for (std::string& text : texts) parts.push_back({text.data(), text.size()});
    return stream.Write(socket, parts.data(), static_cast<int>(parts.size()));
  }
  // Everything that has arrived; `last_` has what ended it.
  std::string Read(TlsStream& stream, int socket) {
    std::string all;
    std::string bytes(100'000, '\0');
    for (;;) {
      iovec part = {bytes.data(), bytes.size()};
      last_ = stream.Read(socket, &part, 1);
      error_ = errno;
      if (last_ <= 0) return all;
      all.append(bytes, 0, static_cast<std::size_t>(last_));
    }
  }

  Cable dialers_, acceptors_;
  std::unique_ptr<TlsStream> dialer_, acceptor_;
  ssize_t last_ = 0;
  int error_ = 0;
};

TEST_F(TlsStreamTest, CarriesPartsOfAnySizeBothWays) {
  MakeAndShake();
  const std::string large(40'000, 'x');
  EXPECT_EQ(Write(*dialer_, near_dialer(), {"header", large, "", "next", large}), 80'010);
  Relay();
  EXPECT_EQ(Read(*acceptor_, near_acceptor()), "header" + large + "next" + large);
  EXPECT_EQ(error_, EAGAIN);
  EXPECT_EQ(Write(*acceptor_, near_acceptor(), {"answer"}), 6);
  Relay();
  EXPECT_EQ(Read(*dialer_, near_dialer()), "answer");
}

// Why: a blocked SSL_write would have to be repeated with the same bytes, and the writer puts
// acknowledgements before waiting data.
// How: the socket is filled; then something else is written.
TEST_F(TlsStreamTest, WritesWhatFollowsAfterAFullSocket) {
  MakeAndShake();
  const int small = 4096;
  ::setsockopt(near_dialer(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  std::string expected, read;
  char fill = 'a';
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string text(30'000, fill);
    const ssize_t taken = Write(*dialer_, near_dialer(), {text});
    if (taken < 0) {
      ASSERT_EQ(errno, EAGAIN);
      EXPECT_TRUE(dialer_->HasUnsent());
      ++refused;
      fill = fill == 'z' ? 'a' : static_cast<char>(fill + 1);
      Relay();
      read += Read(*acceptor_, near_acceptor());
      continue;
    }
    expected.append(text, 0, static_cast<std::size_t>(taken));
  }
  while (dialer_->HasUnsent()) {
    dialer_->Flush(near_dialer());
    Relay();
    read += Read(*acceptor_, near_acceptor());
  }
  Relay();
  read += Read(*acceptor_, near_acceptor());
  EXPECT_GT(refused, 10);
  EXPECT_TRUE(read == expected) << read.size() << " of " << expected.size();
}

// Why: a thread that sleeps until the socket is readable would miss data that was already read.
TEST_F(TlsStreamTest, ReportsDataThatTheSocketDoesNotShow) {
  MakeAndShake();
  Read(*acceptor_, near_acceptor());
  EXPECT_FALSE(acceptor_->HasUnread());
  ASSERT_EQ(Write(*dialer_, near_dialer(), {"two"}), 3);
  ASSERT_EQ(Write(*dialer_, near_dialer(), {"records"}), 7);
  Relay();
  char byte = 0;
  iovec part = {&byte, 1};
  ASSERT_EQ(acceptor_->Read(near_acceptor(), &part, 1), 1);
  pollfd shown = {near_acceptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&shown, 1, 0), 0);
  EXPECT_TRUE(acceptor_->HasUnread());
  EXPECT_EQ(Read(*acceptor_, near_acceptor()), "worecords");
  EXPECT_FALSE(acceptor_->HasUnread());
}

// How: a new key after every third record, in each direction.
TEST_F(TlsStreamTest, ChangesItsKeyBeforeItIsWornOut) {
  MakeAndShake(/*records_per_key=*/3);
  for (int i = 0; i < 50; ++i) {
    const std::string text = "message " + std::to_string(i);
    ASSERT_GT(Write(*dialer_, near_dialer(), {text}), 0);
    ASSERT_GT(Write(*acceptor_, near_acceptor(), {text}), 0);
    Relay();
    ASSERT_EQ(Read(*acceptor_, near_acceptor()), text);
    ASSERT_EQ(Read(*dialer_, near_dialer()), text);
  }
}

TEST_F(TlsStreamTest, RefusesAnotherKey) {
  Make(7, 8);
  const auto [one, other] = Shake();
  EXPECT_TRUE(absl::IsPermissionDenied(other)) << other;
  const absl::Status reported = dialer_->Handshake(near_dialer()).status();
  EXPECT_TRUE(absl::IsPermissionDenied(reported)) << reported;
}

TEST_F(TlsStreamTest, RefusesItsOwnMessagesReflected) {
  Make();
  ASSERT_TRUE(dialer_->Handshake(near_dialer()).ok());
  Put(dialers_.far.get(), Take(dialers_.far.get()));
  EXPECT_TRUE(absl::IsPermissionDenied(dialer_->Handshake(near_dialer()).status()));
}

TEST_F(TlsStreamTest, RefusesACorruptOrRepeatedRecord) {
  for (const bool changes : {true, false}) {
    dialers_ = Cable();
    acceptors_ = Cable();
    MakeAndShake();
    ASSERT_EQ(Write(*dialer_, near_dialer(), {"payload"}), 7);
    std::string record = Take(dialers_.far.get());
    if (changes) record[record.size() / 2] = static_cast<char>(record[record.size() / 2] ^ 1);
    Put(acceptors_.far.get(), record + record);
    EXPECT_EQ(Read(*acceptor_, near_acceptor()), changes ? "" : "payload");
    EXPECT_EQ(last_, -1);
    EXPECT_EQ(error_, EBADMSG);
    EXPECT_EQ(Read(*acceptor_, near_acceptor()), "");  // For good.
    EXPECT_EQ(error_, EBADMSG);
    EXPECT_EQ(Write(*acceptor_, near_acceptor(), {"more"}), -1);
    EXPECT_EQ(errno, EBADMSG);
  }
}

TEST_F(TlsStreamTest, RefusesGarbageAndOversizedRecords) {
  const std::string oversize = std::string("\x16\x03\x01\xff\xff", 5) + std::string(0xffff, 'x');
  for (const std::string& bytes : {std::string(1000, 'G'), oversize, std::string(1000, '\0')}) {
    Cable cable;
    const auto acceptor = *TlsStream::Create(Role::kAcceptor, TlsKey(7));
    Put(cable.far.get(), bytes);
    const absl::Status refused = acceptor->Handshake(cable.near.get()).status();
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  }
  MakeAndShake();
  Put(acceptors_.far.get(), std::string("\x17\x03\x03\xff\xff", 5) + std::string(0xffff, 'x'));
  Read(*acceptor_, near_acceptor());
  EXPECT_EQ(error_, EBADMSG);
}

// How: the dialer's first messages are cut everywhere.
TEST_F(TlsStreamTest, WaitsForTheRestAndEndsWhenItDoesNotArrive) {
  Make();
  ASSERT_TRUE(dialer_->Handshake(near_dialer()).ok());
  const std::string hello = Take(dialers_.far.get());
  for (std::size_t length = 0; length < hello.size(); length += 7) {
    Cable cable;
    const auto acceptor = *TlsStream::Create(Role::kAcceptor, TlsKey(7));
    Put(cable.far.get(), hello.substr(0, length));
    ASSERT_EQ(*acceptor->Handshake(cable.near.get()), Progress::kWantsToRead);
    cable.far.Reset();
    EXPECT_TRUE(absl::IsUnavailable(acceptor->Handshake(cable.near.get()).status())) << length;
  }
}

TEST_F(TlsStreamTest, ReportsTheEndAfterTheData) {
  MakeAndShake();
  ASSERT_EQ(Write(*dialer_, near_dialer(), {"last word"}), 9);
  dialer_->End(near_dialer());
  Relay();
  acceptors_.far.Reset();
  EXPECT_EQ(Read(*acceptor_, near_acceptor()), "last word");
  EXPECT_EQ(last_, 0);
  dialers_ = Cable();
  acceptors_ = Cable();
  MakeAndShake();
  ASSERT_EQ(Write(*dialer_, near_dialer(), {"half a record"}), 13);
  const std::string record = Take(dialers_.far.get());
  Put(acceptors_.far.get(), record.substr(0, record.size() / 2));
  acceptors_.far.Reset();
  EXPECT_EQ(Read(*acceptor_, near_acceptor()), "");
  EXPECT_EQ(last_, 0);
}

}  // namespace
}  // namespace mlxcomm::rail::tls_stream_test
