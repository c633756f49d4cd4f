// A driver that never returns: nothing piles up, and its pending work is cancelled.
#include "daemon/rdma/driver_thread.h"
#include "tests/unit/daemon/rdma/rdma_rails_fixture.h"
#include "tests/unit/looks.h"

namespace mlxcomm::fabric::driver_hangs_test {
namespace {

class DriverHangsTest : public RdmaRailsTest {
 protected:
  DriverHangsTest() { rdma::FakeVerbsControl::ForgetHung(); }
  // Every hanging call returns, and then everything is released, including a queue pair that is
  // made only then, when it is no longer needed.
  ~DriverHangsTest() override {
    control.Want("");
    a.reset();
    b.reset();
    // Without the io_context, because its fabrics are gone.
    const std::uint64_t end = platform::MonotonicNow() + 60'000'000'000;
    const auto is_left = [] { return rdma::FakeVerbsControl::QueuePairs() > 0; };
    for (Looks looks; is_left() && platform::MonotonicNow() < end;) looks.Rest();
    EXPECT_EQ(rdma::FakeVerbsControl::QueuePairs(), 0);
  }
  // The probe, a process of its own (probe_test.cc), reports the device without asking a driver.
  static void KnowTheDevice(link::FabricOptions&, rdma::RdmaOptions& rdma) {
    rdma.driver_program.clear();
    rdma.probe_program = rdma::FakeVerbsControl::Folder() + "/knows";
    std::ofstream(rdma.probe_program)
        << "#!/bin/sh\n"
           "echo 'devices { name: \"rdma_en1\" active: true gids: \"127.0.0.1\" }'\necho end\n";
    std::filesystem::permissions(rdma.probe_program, std::filesystem::perms::owner_all);
  }
};

// Why: each rail whose thread never returns keeps that thread, its queue pair and its region. One a
// minute, for weeks, would exhaust the machine.
TEST_F(DriverHangsTest, LeavesFewThreadsInADriverThatNeverReturns) {
  Join([](link::FabricOptions& options, rdma::RdmaOptions& rdma) {
    KnowTheDevice(options, rdma);
    options.heartbeat_timeout_ns = 300'000'000;
  });
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
  control.Want("hang ibv_poll_cq");
  ASSERT_TRUE(RunUntil(both(), [&] {
    return (Detail(*a) + Detail(*b)).find("has not given back 3 queue pairs") != std::string::npos;
  })) << Detail(*a);
  EXPECT_LE(rdma::FakeVerbsControl::QueuePairs(), 6);
  Carry(1024 * 1024);
  control.Want("");
  ASSERT_TRUE(RunUntil(both(), [&] { return BothUp(); })) << Detail(*a);
}

// Why: set-up is retried while one call has not returned, and a neighbour may send any number of
// offers.
TEST_F(DriverHangsTest, QueuesNoUnboundedJobs) {
  control.Want("hang ibv_create_qp");
  platform::Wakeup bell;
  const rdma::Limits limits;
  auto driver = *rdma::DriverThread::Start({FAKE_VERBS_LIBRARY, "rdma_en1", limits}, bell);
  const rdma::QueuePairShape shape{limits.service, 4096, 4};
  std::uint64_t ticket = 1;
  driver->Make(ticket, shape, rdma::Ipv4Gid(1), 10);
  ASSERT_TRUE(RunUntil({}, [] { return rdma::FakeVerbsControl::HasHung("ibv_create_qp"); }));
  for (; ticket < 100; ++ticket) {
    driver->Cancel(ticket);
    driver->Make(ticket + 1, shape, rdma::Ipv4Gid(1), 10);
    EXPECT_EQ(driver->waiting(), 1u);
  }
  control.Want("");
  rdma::DriverThread::Result first;
  ASSERT_TRUE(RunUntil({}, [&] { return driver->Pop(first); }));
  EXPECT_EQ(first.ticket, 1u);
  rdma::DriverThread::Result last;
  ASSERT_TRUE(RunUntil({}, [&] { return driver->Pop(last); }));
  EXPECT_EQ(last.ticket, ticket);
}

// Why: a queue pair that waits to be connected must be destroyed by the driver's thread.
TEST_F(DriverHangsTest, DestroysTheQueuePairOfACancelledConnection) {
  platform::Wakeup bell;
  const rdma::Limits limits;
  auto driver = *rdma::DriverThread::Start({FAKE_VERBS_LIBRARY, "rdma_en1", limits}, bell);
  const rdma::QueuePairShape shape{limits.service, 4096, 4};
  driver->Make(1, shape, rdma::Ipv4Gid(1), 10);
  rdma::DriverThread::Result made;
  ASSERT_TRUE(RunUntil({}, [&] { return driver->Pop(made); }));
  ASSERT_TRUE(made.status.ok()) << made.status;
  control.Want("hang ibv_create_cq");
  driver->Make(2, shape, rdma::Ipv4Gid(1), 10);
  ASSERT_TRUE(RunUntil({}, [] { return rdma::FakeVerbsControl::HasHung("ibv_create_cq"); }));
  driver->Connect(3, std::move(made.pair), {});
  driver->Cancel(3);
  control.Want("");
  ASSERT_TRUE(RunUntil({}, [&] { return driver->Pop(made); }));
  EXPECT_EQ(made.ticket, 2u);
  ASSERT_TRUE(RunUntil({}, [] { return rdma::FakeVerbsControl::QueuePairs() == 1; }));
}

}  // namespace
}  // namespace mlxcomm::fabric::driver_hangs_test
