// A process and gRPC at the two ends of the relay, both played by the test.
#include "daemon/intake/guard/connection_relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "proto/queue/socket_options.h"
#include "tests/unit/never.h"

namespace mlxcomm::guard::connection_relay_test {
namespace {

const std::string kBeginning("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
const std::string kPing("\0\0\10\6\0\0\0\0\0pingpong", 17);

// A HEADERS frame that begins a call.
std::string CallOn(char stream) { return std::string("\0\0\1\1\4\0\0\0", 8) + stream + "h"; }

struct Ends {
  FileDescriptor process;
  FileDescriptor grpc;
};

// The first of a pair; the relay has the other.
FileDescriptor Connect(FileDescriptor& other) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  for (const int end : ends) {
    ::fcntl(end, F_SETFL, O_NONBLOCK);
    queue::SilenceSignals(end);
  }
  other.Reset(ends[1]);
  return FileDescriptor(ends[0]);
}

Ends Carried(ConnectionRelay& relay) {
  FileDescriptor outer;
  FileDescriptor inner;
  Ends ends{Connect(outer), Connect(inner)};
  relay.Carry(std::move(outer), std::move(inner));
  return ends;
}

bool Wait(int descriptor, short events) {
  pollfd waited{descriptor, events, 0};
  return ::poll(&waited, 1, kNeverMs) == 1;
}

// As much as requested, or less if the other side ends.
std::string Read(const FileDescriptor& from, std::size_t bytes) {
  std::string got(bytes, '\0');
  std::size_t at = 0;
  while (at < bytes && Wait(from.get(), POLLIN)) {
    const ssize_t some = ::recv(from.get(), got.data() + at, bytes - at, 0);
    if (some < 0 && errno == EAGAIN) continue;
    if (some <= 0) break;
    at += static_cast<std::size_t>(some);
  }
  return got.substr(0, at);
}

// The part that is taken at once.
std::size_t Write(const FileDescriptor& to, const std::string& bytes) {
  const ssize_t some = ::send(to.get(), bytes.data(), bytes.size(), queue::kNoSignal);
  return some > 0 ? static_cast<std::size_t>(some) : 0;
}

void WriteAll(const FileDescriptor& to, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    ASSERT_TRUE(Wait(to.get(), POLLOUT));
    const std::size_t some = Write(to, bytes.substr(at));
    if (some == 0 && errno != EAGAIN) return;
    at += some;
  }
}

// More than two sockets and a chunk hold: answers wait in the relay once gRPC's side has taken a
// part.
std::size_t BytesHeld(const Ends& ends) {
  int of_socket = 0;
  socklen_t length = sizeof of_socket;
  EXPECT_EQ(::getsockopt(ends.grpc.get(), SOL_SOCKET, SO_SNDBUF, &of_socket, &length), 0);
  return static_cast<std::size_t>(of_socket) + ConnectionRelay::kAnswerChunkBytes;
}

std::uint64_t Ended(const ConnectionRelay& relay, EndReason reason) {
  return relay.ended()[static_cast<std::size_t>(reason)];
}

std::string Numbers(std::size_t bytes) {
  std::string numbers;
  while (numbers.size() < bytes) numbers += std::to_string(numbers.size()) + ' ';
  return numbers.substr(0, bytes);
}

TEST(ConnectionRelayTest, CarriesEachByteBothWays) {
  ConnectionRelay relay;
  const Ends ends = Carried(relay);
  const std::string data = Numbers(16 * 1024);
  std::string requests = kBeginning;
  for (int i = 0; i < 100; ++i) requests += std::string("\0\100\0\0\0\0\0\0\1", 9) + data;
  const std::string answers = Numbers(3'000'000);
  std::thread process([&] { WriteAll(ends.process, requests); });
  std::thread grpc([&] { WriteAll(ends.grpc, answers); });
  std::string got;
  std::thread reader([&] { got = Read(ends.process, answers.size()); });
  EXPECT_EQ(Read(ends.grpc, requests.size()), requests);
  for (std::thread* const thread : {&process, &grpc, &reader}) thread->join();
  EXPECT_EQ(got, answers);
  EXPECT_EQ(relay.ended(), EndCounts{});
}

TEST(ConnectionRelayTest, EachSideLearnsThatTheOtherHasEnded) {
  ConnectionRelay relay;
  Ends ends = Carried(relay);
  ends.process.Reset();
  EXPECT_EQ(Read(ends.grpc, 1), "");
  ends = Carried(relay);
  WriteAll(ends.grpc, "last");
  ends.grpc.Reset();
  EXPECT_EQ(Read(ends.process, 5), "last");
  EXPECT_EQ(relay.ended(), EndCounts{});
}

TEST(ConnectionRelayTest, EndsAFloodAndCountsIt) {
  ConnectionRelay relay;
  const Ends ends = Carried(relay);
  std::string flood = kBeginning;
  for (int i = 0; i < 10'000; ++i) flood += kPing;
  WriteAll(ends.process, flood);
  // gRPC gets the earlier chunks, at most the pings that are allowed at once.
  EXPECT_LE(Read(ends.grpc, flood.size()).size(),
            kBeginning.size() + 64 * kPing.size() + kPing.size());
  EXPECT_EQ(Read(ends.process, 1), "");
  EXPECT_EQ(Ended(relay, EndReason::kPings), 1u);
}

// Why: a process that sends requests and never reads would make gRPC keep all answers.
// How: traffic in both directions on another connection shows that the relay has had its turns.
TEST(ConnectionRelayTest, ReadsNoRequestsWhileAnswersAreNotRead) {
  ConnectionRelay relay;
  const Ends ends = Carried(relay);
  const Ends other = Carried(relay);
  const std::string request("\0\0\4\x8\0\0\0\0\0\0\0\0\1", 13);
  const auto turns = [&] {
    for (int i = 0; i < 50; ++i) {
      WriteAll(other.process, request);
      EXPECT_EQ(Read(other.grpc, request.size()), request);
    }
  };
  for (const Ends* const one : {&ends, &other}) {
    WriteAll(one->process, kBeginning);
    EXPECT_EQ(Read(one->grpc, kBeginning.size()), kBeginning);
  }
  const std::string answers(BytesHeld(ends), 'a');
  WriteAll(ends.grpc, answers);
  turns();
  WriteAll(ends.process, request);
  turns();
  pollfd waited{ends.grpc.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, 0), 0);
  EXPECT_EQ(Read(ends.process, answers.size()), answers);
  EXPECT_EQ(Read(ends.grpc, request.size()), request);
}

TEST(ConnectionRelayTest, EndsWhoDoesNotReadPastTheDeadlineAndNobodyElse) {
  ConnectionRelay relay(/*unread_timeout_ns=*/50'000'000);
  const Ends reads = Carried(relay);
  const Ends ends = Carried(relay);
  WriteAll(ends.process, kBeginning + CallOn(1) + CallOn(3));
  EXPECT_EQ(Read(ends.grpc, kBeginning.size() + 2 * CallOn(1).size()).size(),
            kBeginning.size() + 2 * CallOn(1).size());
  WriteAll(ends.grpc, std::string(BytesHeld(ends), 'a'));
  while (Ended(relay, EndReason::kUnread) == 0) std::this_thread::yield();
  while (!Read(ends.grpc, 1).empty()) {
  }
  WriteAll(reads.grpc, "still here");
  EXPECT_EQ(Read(reads.process, 10), "still here");
  EXPECT_EQ(Ended(relay, EndReason::kUnread), 1u);
}

// Why: a stream of events whose reader pauses is one call, and holds one chunk of its answers;
// ending it would not help.
// How: a connection with two calls, whose answers wait from the same time on, is past its deadline
// first.
TEST(ConnectionRelayTest, WhoHasOneCallMayPauseForLonger) {
  ConnectionRelay relay(/*unread_timeout_ns=*/50'000'000);
  const Ends pauses = Carried(relay);
  const Ends ends = Carried(relay);
  WriteAll(pauses.process, kBeginning + CallOn(1));
  WriteAll(ends.process, kBeginning + CallOn(1) + CallOn(3));
  (void)Read(pauses.grpc, kBeginning.size() + CallOn(1).size());
  (void)Read(ends.grpc, kBeginning.size() + 2 * CallOn(1).size());
  const std::string answers(BytesHeld(ends), 'a');
  WriteAll(pauses.grpc, answers);
  WriteAll(ends.grpc, answers);
  while (Ended(relay, EndReason::kUnread) == 0) std::this_thread::yield();
  EXPECT_EQ(Read(pauses.process, answers.size()), answers);
  EXPECT_EQ(Ended(relay, EndReason::kUnread), 1u);
}

// Why: a daemon that drains answers what waits and closes; a call that another thread begins at
// that moment finds gRPC closed, and must not take these answers with it.
TEST(ConnectionRelayTest, PassesTheLastAnswersOnThoughAnotherCallBegins) {
  ConnectionRelay relay;
  Ends ends = Carried(relay);
  WriteAll(ends.process, kBeginning);
  (void)Read(ends.grpc, kBeginning.size());
  const std::string answers(BytesHeld(ends), 'a');
  WriteAll(ends.grpc, answers);
  ends.grpc.Reset();
  WriteAll(ends.process, CallOn(1));
  EXPECT_EQ(Read(ends.process, answers.size()), answers);
}

TEST(ConnectionRelayTest, PassesTheLastAnswersOnWhenItEnds) {
  Ends ends;
  {
    ConnectionRelay relay;
    ends = Carried(relay);
    WriteAll(ends.process, kBeginning);
    EXPECT_EQ(Read(ends.grpc, kBeginning.size()), kBeginning);
    WriteAll(ends.grpc, "goodbye");
  }
  EXPECT_EQ(Read(ends.process, 8), "goodbye");
}

}  // namespace
}  // namespace mlxcomm::guard::connection_relay_test
