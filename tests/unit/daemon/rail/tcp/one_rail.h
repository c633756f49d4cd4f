// One rail at one end of a socket, the test's own bytes at the other. The test plays the loop.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/platform/machine.h"
#include "daemon/rail/frame_sum.h"
#include "daemon/rail/tcp/tcp_rail.h"
#include "tests/unit/never.h"

namespace mlxcomm::rail {

class OneRailTest : public testing::Test {
 protected:
  // With many cores the thread handles large data, with few the loop does.
  void MakeRail(SocketWatches::Handle watch = nullptr,
                queue::Scheduling scheduling = queue::Scheduling::kManyCores) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    far_.Reset(ends[1]);
    MakeRailOf(FileDescriptor(ends[0]), std::move(watch), scheduling, nullptr);
  }
  void MakeRailOf(FileDescriptor near, SocketWatches::Handle watch, queue::Scheduling scheduling,
                  std::unique_ptr<ByteStream> stream) {
    has_sums_ = stream == nullptr || !stream->is_encrypted();
    auto created = TcpRail::Create(std::move(near), "here", "there",
                                   queue::SchedulingPolicy::Choose(scheduling, 2), bell_,
                                   std::move(watch), std::move(stream));
    ASSERT_TRUE(created.ok());
    rail_ = *std::move(created);
  }
  // The next event of the kind; others are counted and skipped.
  RailEvent Next(RailEvent::Kind kind) {
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    RailEvent event;
    while (platform::MonotonicNow() < deadline) {
      if (!rail_->Pop(event)) continue;
      transmitted_ += event.transmitted;
      if (event.kind == kind) return event;
      if (event.kind == RailEvent::Kind::kDown) break;
    }
    ADD_FAILURE() << "the event does not arrive; " << event.reason;
    return {};
  }
  void Start(bool resumed = false) { ASSERT_TRUE(rail_->Start(resumed, claims_).ok()); }

  static wire::FrameHeader Header(wire::FrameType type, std::uint64_t sequence,
                                  std::uint32_t payload_bytes = 0, std::uint64_t offset = 0) {
    wire::FrameHeader header;
    header.type = type;
    header.sequence = sequence;
    header.payload_bytes = payload_bytes;
    header.offset = offset;
    header.number = wire::IsSignOfLife(type) ? 0 : 5;
    return header;
  }
  std::vector<std::byte> FrameBytes(wire::FrameHeader header, int fill = 0) const {
    std::vector<std::byte> bytes(sizeof header + header.payload_bytes,
                                 static_cast<std::byte>(fill));
    if (has_sums_) PutSums(header, bytes.data() + sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
  }
  // What a plain rail has written, with its sums checked and cleared.
  wire::FrameHeader ReadAtFar(std::vector<std::byte>* payload_read = nullptr) {
    wire::FrameHeader header;
    EXPECT_EQ(::recv(far_.get(), &header, sizeof header, MSG_WAITALL), ssize_t{sizeof header});
    std::uint32_t sum = 0;
    EXPECT_TRUE(TakeSums(header, sum));
    EXPECT_TRUE(wire::IsWellFormed(header));
    std::vector<std::byte> payload(header.payload_bytes);
    if (!payload.empty()) {
      EXPECT_EQ(::recv(far_.get(), payload.data(), payload.size(), MSG_WAITALL),
                static_cast<ssize_t>(payload.size()));
    }
    EXPECT_EQ(ExtendSum(0, payload.data(), payload.size()), sum);
    if (payload_read != nullptr) *payload_read = std::move(payload);
    return header;
  }
  void SendFromFar(const std::vector<std::byte>& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t done =
          ::send(far_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      ASSERT_GT(done, 0);
      sent += static_cast<std::size_t>(done);
    }
  }

  platform::Wakeup bell_;
  FileDescriptor far_;
  ArrivalClaims claims_;
  std::deque<ReceiveBudget> budgets_;
  std::unique_ptr<TcpRail> rail_;
  std::uint64_t transmitted_ = 0;
  bool has_sums_ = true;
};

}  // namespace mlxcomm::rail
