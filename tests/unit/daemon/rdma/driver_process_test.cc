// A driver in a separate process: messages pass as through a driver in this process, and this one
// survives whatever happens to that one.
#include "daemon/rdma/driver_process.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "daemon/fabric/authentication.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/rail/text_field.h"
#include "daemon/rdma/shared_queue.h"
#include "proto/types/version.h"
#include "tests/unit/daemon/rdma/fake_verbs_control.h"
#include "tests/unit/looks.h"

namespace mlxcomm::rdma::driver_process_test {
namespace {

// Longer than the process needs to start, which sanitizers slow down.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kShortCallNs = 5'000'000'000;
#else
constexpr std::uint64_t kShortCallNs = 300'000'000;
#endif
const QueuePairShape kShape{Service::kUnreliable, 5 * 4096, 16};

class DriverProcessTest : public testing::Test {
 protected:
  ~DriverProcessTest() override { control_.Want(""); }
  static std::shared_ptr<Device> Open(const std::string& name,
                                      std::uint64_t call_ns = DriverProcess::kCallNs) {
    auto opened = OpenInProcess(PROBE_PROGRAM, FAKE_VERBS_LIBRARY, name, Limits(), {}, call_ns);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *opened : nullptr;
  }
  struct Joined {
    std::shared_ptr<Device> device_a, device_b;
    std::unique_ptr<QueuePair> a, b;
  };
  static Joined Join(std::uint64_t call_ns = DriverProcess::kCallNs) {
    Joined joined{Open("rdma_en1", call_ns), Open("rdma_en2"), nullptr, nullptr};
    auto a = joined.device_a->MakeQueuePair(kShape, Ipv4Gid(1));
    auto b = joined.device_b->MakeQueuePair(kShape, Ipv4Gid(2));
    EXPECT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    joined.a = *std::move(a);
    joined.b = *std::move(b);
    EXPECT_TRUE(joined.a->Connect(joined.b->address()).ok());
    EXPECT_TRUE(joined.b->Connect(joined.a->address()).ok());
    return joined;
  }
  // Waits until this number has completed or the queue pair fails; gives up after a minute.
  static absl::Status Await(QueuePair& pair, std::size_t count, std::vector<Completion>& reported) {
    const std::uint64_t end = platform::MonotonicNow() + 60'000'000'000;
    while (reported.size() < count && platform::MonotonicNow() < end) {
      if (absl::Status status = pair.Arm(); !status.ok()) return status;
      Completion some[8];
      const auto got = pair.Poll(some);
      if (!got.ok()) return got.status();
      reported.insert(reported.end(), some, some + *got);
      pollfd waited{pair.descriptor(), POLLIN, 0};
      if (*got == 0) ::poll(&waited, 1, 1000);
    }
    return reported.size() >= count ? absl::OkStatus()
                                    : absl::DeadlineExceededError("nothing comes");
  }
  static void Fill(QueuePair& pair, std::uint32_t slot, int with) {
    std::memset(pair.Slot(slot).data(), with, pair.Slot(slot).size());
  }
  static bool IsAlive(int pid) { return ::kill(pid, 0) == 0; }
  // The part of a queue pair that both processes share.
  static QueueHeader& HeaderOf(QueuePair& pair) {
    const QueueLayout layout(kShape);
    return *reinterpret_cast<QueueHeader*>(pair.Slot(0).data() - layout.slots);
  }
  static PostCompletion& CompletionOf(QueuePair& pair, std::size_t at) {
    const QueueLayout layout(kShape);
    std::byte* const segment = pair.Slot(0).data() - layout.slots;
    return reinterpret_cast<PostCompletion*>(segment + layout.completions)[at];
  }
  static void Carry(Joined& joined) {
    const std::uint32_t first = joined.a->messages();
    for (std::uint32_t i = 0; i < 3; ++i) {
      Fill(*joined.a, first + i, static_cast<int>(i + 1));
      ASSERT_TRUE(joined.a->PostSend(first + i, 100).ok());
    }
    std::vector<Completion> reported;
    ASSERT_TRUE(Await(*joined.b, 3, reported).ok());
    for (std::uint32_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(reported[i].receive);
      EXPECT_EQ(reported[i].bytes, kShape.message_bytes);
      EXPECT_EQ(joined.b->Slot(reported[i].slot)[50], static_cast<std::byte>(i + 1));
    }
    std::vector<Completion> sent;
    ASSERT_TRUE(Await(*joined.a, 3, sent).ok());
    EXPECT_FALSE(sent[0].receive);
  }

  FakeVerbsControl control_;
};

TEST_F(DriverProcessTest, CarriesMessagesBetweenTwoDevicesOfTwoProcesses) {
  Joined joined = Join();
  EXPECT_NE(joined.device_a->driver_pid(), joined.device_b->driver_pid());
  EXPECT_TRUE(IsAlive(joined.device_a->driver_pid()));
  EXPECT_TRUE(joined.device_a->IsThere());
  EXPECT_EQ(joined.device_a->use().queue_pairs, 1u);
  Carry(joined);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(joined.b->PostReceive(i).ok());
  Carry(joined);  // Also over receives that were posted again.
}

TEST_F(DriverProcessTest, EndsWithItsDevice) {
  int pid = 0;
  {
    const auto device = Open("rdma_en1");
    pid = device->driver_pid();
    auto pair = device->MakeQueuePair(kShape, Ipv4Gid(1));
    ASSERT_TRUE(pair.ok()) << pair.status();
  }
  EXPECT_FALSE(IsAlive(pid));
}

// Sending without a copy: the process maps the arena by its descriptor, from the piece's own offset
// on.
TEST_F(DriverProcessTest, SendsFromAnArenaThatItHasMapped) {
  Joined joined = Join();
  auto arena = platform::SharedSegment::Create("arena", 4 << 20);
  ASSERT_TRUE(arena.ok());
  const rail::ClientMemory memory{nullptr, arena->data(), arena->bytes(), arena->descriptor()};
  std::byte* const piece = arena->data() + (1 << 20);
  auto region = joined.device_a->Register(memory, piece, 1 << 20);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(joined.device_a->use().regions, 2u);
  std::memset(piece + 8192, 7, kShape.message_bytes);
  const std::uint32_t slot = joined.a->messages();
  ASSERT_TRUE(joined.a->PostSendFrom(slot, **region, piece + 8192, kShape.message_bytes).ok());
  std::vector<Completion> reported;
  ASSERT_TRUE(Await(*joined.b, 1, reported).ok());
  EXPECT_EQ(joined.b->Slot(reported[0].slot)[0], std::byte{7});
  EXPECT_EQ(joined.b->Slot(reported[0].slot)[kShape.message_bytes - 1], std::byte{7});
  reported.clear();
  ASSERT_TRUE(Await(*joined.a, 1, reported).ok());
  region->reset();
  EXPECT_EQ(joined.device_a->use().regions, 1u);
}

TEST_F(DriverProcessTest, RegistersOnlyWhatAnotherProcessCanMap) {
  const auto device = Open("rdma_en1");
  std::vector<std::byte> own(1 << 20);
  const auto region = device->Register({nullptr, own.data(), own.size()}, own.data(), own.size());
  EXPECT_TRUE(absl::IsUnavailable(region.status())) << region.status();
}

// Why: it is unknown whether Apple's driver registers shared mappings. If it does not, messages are
// copied once more, and arenas are not registered.
TEST_F(DriverProcessTest, CopiesMessagesIfTheDriverRefusesSharedMemory) {
  control_.Want("refuse_shared 1");
  Joined joined = Join();
  Carry(joined);
  auto arena = platform::SharedSegment::Create("arena", 1 << 20);
  ASSERT_TRUE(arena.ok());
  const rail::ClientMemory memory{nullptr, arena->data(), arena->bytes(), arena->descriptor()};
  EXPECT_FALSE(joined.device_a->Register(memory, arena->data(), arena->bytes()).ok());
}

// Why: memory that the driver may still read must not be unmapped before the driver has released
// it.
TEST_F(DriverProcessTest, DestroysAQueuePairBeforeItsMemoryGoes) {
  Joined joined = Join();
  control_.Want("delay_us 2000");
  for (std::uint32_t i = 0; i < joined.a->messages(); ++i) {
    ASSERT_TRUE(joined.a->PostSend(joined.a->messages() + i, kShape.message_bytes).ok());
  }
  joined.a.reset();
  EXPECT_TRUE(joined.device_a->IsThere()) << joined.device_a->DriverEnded();
}

TEST_F(DriverProcessTest, CountsAQueuePairThatTheDriverKeeps) {
  Joined joined = Join();
  control_.Want("fail ibv_destroy_qp");
  joined.a.reset();
  EXPECT_EQ(joined.device_a->use().queue_pairs, 1u);
  EXPECT_TRUE(joined.device_a->IsThere());
}

TEST_F(DriverProcessTest, ReportsHowItEnded) {
  Joined joined = Join();
  ::kill(joined.device_a->driver_pid(), SIGKILL);
  std::vector<Completion> reported;
  const absl::Status status = Await(*joined.a, 1, reported);
  EXPECT_NE(status.message().find("ended by signal 9 (Killed)"), std::string::npos) << status;
  EXPECT_FALSE(joined.device_a->IsThere());
  EXPECT_FALSE(joined.device_a->DriverEnded().ok());
  EXPECT_FALSE(joined.device_a->MakeQueuePair(kShape, Ipv4Gid(1)).ok());
  EXPECT_TRUE(joined.device_b->IsThere()) << "another device's process";
}

// Why: an upgrade replaces a daemon's program while it runs, so it then starts another version.
TEST_F(DriverProcessTest, RefusesADaemonOfAnotherVersion) {
  auto process = DriverProcess::Start(PROBE_PROGRAM, "rdma_en1");
  ASSERT_TRUE(process.ok());
  DriverRequest request;
  request.kind = DriverRequest::Kind::kOpen;
  rail::PutText("0.0.7", request.version);
  const auto answer = (*process)->Call(request);
  EXPECT_NE(answer.status().message().find("version 0.0.7 is running"), std::string::npos)
      << answer.status();
}

TEST_F(DriverProcessTest, ReportsFaultsOfProgramLibraryAndDevice) {
  const auto open = [](const std::string& program, const std::string& library,
                       const std::string& name) {
    return std::string(OpenInProcess(program, library, name, Limits(), {}).status().message());
  };
  EXPECT_NE(open("/no/program", FAKE_VERBS_LIBRARY, "rdma_en1").find("/no/program"),
            std::string::npos);
  EXPECT_NE(open(PROBE_PROGRAM, "/no/library.so", "rdma_en1").find("/no/library.so"),
            std::string::npos);
  EXPECT_NE(open(PROBE_PROGRAM, FAKE_VERBS_LIBRARY, "rdma_en9").find("rdma_en9"),
            std::string::npos);
  EXPECT_NE(open(PROBE_PROGRAM, std::string(2000, 'x'), "rdma_en1").find("too long"),
            std::string::npos);
}

// Why: a daemon's bug must not end the process that other rails need.
TEST_F(DriverProcessTest, AnswersInvalidRequests) {
  auto process = DriverProcess::Start(PROBE_PROGRAM, "rdma_en1");
  ASSERT_TRUE(process.ok());
  DriverRequest open;
  open.kind = DriverRequest::Kind::kOpen;
  rail::PutText(kSoftwareVersion, open.version);
  rail::PutText(FAKE_VERBS_LIBRARY, open.library);
  rail::PutText("rdma_en1", open.device);
  ASSERT_TRUE((*process)->Call(open).ok());
  std::mt19937_64 random(1);
  const auto segment = platform::SharedSegment::Create("short", 4096);
  for (int i = 0; i < 300; ++i) {
    DriverRequest request = open;
    request.kind = static_cast<DriverRequest::Kind>(random() % 10);
    request.id = static_cast<std::uint32_t>(random() % 300);
    request.shape = {Service::kUnreliable, static_cast<std::uint32_t>(random() >> (random() % 64)),
                     static_cast<std::uint32_t>(random() >> (random() % 64))};
    request.gid = Ipv4Gid(1);
    request.offset = random() >> (random() % 64);
    request.bytes = random() >> (random() % 64);
    const std::vector<int> descriptors(random() % 3, segment->descriptor());
    const auto answer = (*process)->Call(request, descriptors);
    const bool is_no_more = HasEndedProcess(answer.status());
    ASSERT_FALSE(is_no_more) << i << ": " << answer.status();
  }
  EXPECT_TRUE((*process)->Ended().ok());
}

// The other process's output is not trusted.
TEST_F(DriverProcessTest, FailsAQueuePairWhoseProcessCorruptsIt) {
  const auto message_of = [](Joined& joined) {
    Completion some[8];
    const auto polled = joined.a->Poll(some);
    return std::string(polled.status().message());
  };
  {
    Joined joined = Join();
    HeaderOf(*joined.a).completions.written.store(1'000'000);
    EXPECT_NE(message_of(joined).find("corrupted its ring"), std::string::npos)
        << message_of(joined);
  }
  const PostCompletion wrong[] = {
      {16, 0, 0},            // A send that was not posted.
      {0xffffffff, 1, 100},  // Not a slot.
      {32, 0, 0},            // After the last slot.
      {20, 1, 100},          // A send's slot, as a receive.
      {0, 1, 1u << 30},      // Larger than a message.
  };
  for (const PostCompletion& completion : wrong) {
    Joined joined = Join();
    CompletionOf(*joined.a, 0) = completion;
    HeaderOf(*joined.a).completions.written.store(1);
    EXPECT_NE(message_of(joined).find("completed what was not posted"), std::string::npos)
        << completion.slot << ": " << message_of(joined);
  }
  Joined joined = Join();
  std::memset(HeaderOf(*joined.a).why.data(), 0x1b, HeaderOf(*joined.a).why.size());
  HeaderOf(*joined.a).has_failed.store(1);
  EXPECT_EQ(message_of(joined), std::string(HeaderOf(*joined.a).why.size(), '?'));
}

// An invalid request fails the queue pair in the other process.
TEST_F(DriverProcessTest, FailsAQueuePairAfterAnInvalidRequest) {
  Joined joined = Join();
  ASSERT_TRUE(joined.a->PostSend(joined.a->messages(), kShape.message_bytes + 1).ok());
  std::vector<Completion> reported;
  const absl::Status status = Await(*joined.a, 1, reported);
  EXPECT_NE(status.message().find("an invalid request"), std::string::npos) << status;
  EXPECT_TRUE(joined.device_a->IsThere());
}

constexpr const char* kCalls[] = {"ibv_get_device_list",
                                  "ibv_free_device_list",
                                  "ibv_get_device_name",
                                  "ibv_open_device",
                                  "ibv_query_device",
                                  "ibv_query_port",
                                  "ibv_query_gid",
                                  "ibv_alloc_pd",
                                  "ibv_reg_mr",
                                  "ibv_dereg_mr",
                                  "ibv_create_comp_channel",
                                  "ibv_destroy_comp_channel",
                                  "ibv_create_cq",
                                  "ibv_destroy_cq",
                                  "ibv_create_qp",
                                  "ibv_modify_qp",
                                  "ibv_query_qp",
                                  "ibv_destroy_qp",
                                  "ibv_post_recv",
                                  "ibv_post_send",
                                  "ibv_poll_cq",
                                  "ibv_req_notify_cq",
                                  "ibv_get_cq_event",
                                  "ibv_ack_cq_events"};

class DriverCallTest : public DriverProcessTest, public testing::WithParamInterface<const char*> {
 protected:
  // Does everything with a device until something fails; returns the failure.
  static absl::Status UseAll(std::uint64_t call_ns) {
    auto device =
        OpenInProcess(PROBE_PROGRAM, FAKE_VERBS_LIBRARY, "rdma_en1", Limits(), {}, call_ns);
    auto other =
        OpenInProcess(PROBE_PROGRAM, FAKE_VERBS_LIBRARY, "rdma_en2", Limits(), {}, call_ns);
    if (!device.ok() || !other.ok()) return device.ok() ? other.status() : device.status();
    auto arena = *platform::SharedSegment::Create("arena", 1 << 20);
    const rail::ClientMemory memory{nullptr, arena.data(), arena.bytes(), arena.descriptor()};
    auto region = (*device)->Register(memory, arena.data(), arena.bytes());
    if (!region.ok()) return region.status();
    region->reset();
    auto a = (*device)->MakeQueuePair(kShape, Ipv4Gid(1));
    if (!a.ok()) return a.status();
    auto b = (*other)->MakeQueuePair(kShape, Ipv4Gid(2));
    if (!b.ok()) return b.status();
    absl::Status status = (*a)->Connect((*b)->address());
    if (status.ok()) status = (*b)->Connect((*a)->address());
    std::vector<Completion> reported;
    if (status.ok()) status = (*a)->PostSend((*a)->messages(), 100);
    if (status.ok()) status = Await(**a, 1, reported);
    reported.clear();
    if (status.ok()) status = Await(**b, 1, reported);
    if (!status.ok()) return status;
    a->reset();
    b->reset();
    const absl::Status ended = (*device)->DriverEnded();
    return ended.ok() ? (*other)->DriverEnded() : ended;
  }
};

TEST_P(DriverCallTest, CrashesAndOnlyItsProcessEnds) {
  control_.Want(std::string("crash ") + GetParam());
  const absl::Status status = UseAll(DriverProcess::kCallNs);
  EXPECT_NE(status.message().find("ended by signal 11"), std::string::npos) << status;
  control_.Want("");
  EXPECT_TRUE(UseAll(DriverProcess::kCallNs).ok());
}

// A hang in a call without an answer is noticed when the queue pair is destroyed.
TEST_P(DriverCallTest, HangsAndItsProcessIsKilled) {
  control_.Want(std::string("hang ") + GetParam());
  const std::string call = GetParam();
  const bool nobody_waits = call == "ibv_post_send" || call == "ibv_poll_cq" ||
                            call == "ibv_req_notify_cq" || call == "ibv_get_cq_event" ||
                            call == "ibv_ack_cq_events";
  if (!nobody_waits) {
    const absl::Status status = UseAll(kShortCallNs);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  } else {
    control_.Want("");
    Joined joined = Join(kShortCallNs);
    FakeVerbsControl::ForgetHung();  // Must come first, because polling hangs at once.
    control_.Want("hang " + call);
    static_cast<void>(joined.a->PostSend(joined.a->messages(), 100));
    LookUntil([&] {
      static_cast<void>(joined.a->Arm());
      Completion some[8];
      static_cast<void>(joined.a->Poll(some));
      return FakeVerbsControl::HasHung(call);
    });
    joined.b.reset();
    joined.a.reset();
    const absl::Status ended = joined.device_a->DriverEnded();
    EXPECT_FALSE(ended.ok() && joined.device_b->DriverEnded().ok());
  }
  control_.Want("");
  EXPECT_TRUE(UseAll(DriverProcess::kCallNs).ok());
}

INSTANTIATE_TEST_SUITE_P(Calls, DriverCallTest, testing::ValuesIn(kCalls),
                         [](const auto& call) { return std::string(call.param); });

}  // namespace
}  // namespace mlxcomm::rdma::driver_process_test
