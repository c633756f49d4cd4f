// The fake verbs stand in for missing hardware. A client of verbs that uses none of the daemon's
// code breaks the rules that they claim to enforce (tests/fake_verbs/README.md). trials_test and
// operations/test_rdma_shown.py break others.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <utility>

#include "daemon/rdma/verbs_library.h"
#include "tests/unit/daemon/rdma/fake_verbs_control.h"

namespace mlxcomm::rdma::fake_verbs_test {
namespace {

constexpr std::uint32_t kFrame = 4096;
constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// One end: a queue pair and its region, as in a correct program.
struct Bare {
  Bare(const Verbs& table, int which, std::uint32_t depth = 16) : verbs(table) {
    int count = 0;
    ibv_device** const list = verbs.get_device_list(&count);
    context = verbs.open_device(list[which]);
    verbs.free_device_list(list);
    domain = verbs.alloc_pd(context);
    channel = verbs.create_comp_channel(context);
    ::fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    queue = verbs.create_cq(context, 64, nullptr, channel, 0);
    pair = Make(depth);
    memory = static_cast<std::byte*>(
        ::mmap(nullptr, 64 * kFrame, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    region = verbs.reg_mr(domain, memory, 64 * kFrame, kAllAccess);
  }
  ~Bare() {
    EXPECT_TRUE(pair == nullptr || verbs.destroy_qp(pair) == 0);
    EXPECT_EQ(verbs.dereg_mr(region), 0);
    EXPECT_EQ(verbs.destroy_cq(queue), 0);
    EXPECT_EQ(verbs.destroy_comp_channel(channel), 0);
    EXPECT_EQ(verbs.dealloc_pd(domain), 0);
    EXPECT_EQ(verbs.close_device(context), 0);
    ::munmap(memory, 64 * kFrame);
  }
  ibv_qp* Make(std::uint32_t depth) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_UC;
    wanted.cap = {depth, depth, 1, 1, 0};
    return verbs.create_qp(domain, &wanted);
  }
  int Move(ibv_qp_state to, std::uint32_t peer = 0) {
    ibv_qp_attr attributes{};
    attributes.qp_state = to;
    attributes.port_num = 1;
    attributes.dest_qp_num = peer;
    attributes.ah_attr.is_global = 1;
    attributes.path_mtu = IBV_MTU_1024;
    int mask = IBV_QP_STATE;
    if (to == IBV_QPS_INIT) mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (to == IBV_QPS_RTR) {
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    if (to == IBV_QPS_RTS) mask |= IBV_QP_SQ_PSN;
    return verbs.modify_qp(pair, &attributes, mask);
  }
  void Ready(std::uint32_t peer) {
    ASSERT_EQ(Move(IBV_QPS_INIT), 0);
    ASSERT_EQ(Move(IBV_QPS_RTR, peer), 0);
    ASSERT_EQ(Move(IBV_QPS_RTS), 0);
  }
  int Receive(std::uint32_t bytes = kFrame, int entries = 1) {
    ibv_sge entry[2] = {{reinterpret_cast<std::uint64_t>(memory), bytes, region->lkey}, {}};
    ibv_recv_wr request{};
    request.sg_list = entry;
    request.num_sge = entries;
    ibv_recv_wr* refused = nullptr;
    return ibv_post_recv(pair, &request, &refused);
  }
  int Send(
      std::uint32_t bytes = kFrame,
      const std::function<void(ibv_send_wr&, ibv_sge&)>& change = [](ibv_send_wr&, ibv_sge&) {}) {
    ibv_sge entry[2] = {{reinterpret_cast<std::uint64_t>(memory), bytes, region->lkey}, {}};
    ibv_send_wr request{};
    request.sg_list = entry;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    change(request, entry[0]);
    ibv_send_wr* refused = nullptr;
    return ibv_post_send(pair, &request, &refused);
  }

  const Verbs& verbs;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  ibv_qp* pair = nullptr;
  ibv_mr* region = nullptr;
  std::byte* memory = nullptr;
};

class FakeVerbsTest : public testing::Test {
 protected:
  FakeVerbsTest() {
    auto loaded = LoadVerbs(FAKE_VERBS_LIBRARY);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    verbs = *loaded;
  }
  ~FakeVerbsTest() override {
    EXPECT_EQ(control.TakeFaults(), "") << "what the test has not asked for";
    control.Want("");
  }
  void ExpectFault(const std::string& what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::string faults;
    while (faults.empty() && std::chrono::steady_clock::now() < end) faults = control.TakeFaults();
    EXPECT_NE(faults.find(what), std::string::npos) << faults;
  }

  FakeVerbsControl control;
  Verbs verbs{};
};

TEST_F(FakeVerbsTest, AcceptsOnlySendsWithACompletionAndOneEntryOfItsRegion) {
  Bare a(verbs, 0);
  a.Ready(5);
  EXPECT_NE(a.Send(kFrame, [](ibv_send_wr& request, ibv_sge&) { request.send_flags = 0; }), 0);
  ExpectFault("without a completion");
  EXPECT_NE(
      a.Send(kFrame, [](ibv_send_wr& request, ibv_sge&) { request.opcode = IBV_WR_RDMA_WRITE; }),
      0);
  ExpectFault("no SEND");
  EXPECT_NE(a.Send(kFrame, [](ibv_send_wr& request, ibv_sge&) { request.num_sge = 2; }), 0);
  ExpectFault("2 entries, not one");
  EXPECT_NE(a.Receive(kFrame, 2), 0);
  ExpectFault("2 entries, not one");
  EXPECT_NE(a.Send(kFrame, [](ibv_send_wr&, ibv_sge& entry) { entry.lkey += 1000; }), 0);
  ExpectFault("key of no region");
  EXPECT_NE(a.Send(65 * kFrame), 0);
  ExpectFault("outside of its region");
}

// Depths are counted in frames, not in requests.
TEST_F(FakeVerbsTest, AcceptsNoMoreThanItsDepth) {
  Bare a(verbs, 0, 4);
  a.Ready(5);
  EXPECT_EQ(a.Receive(3 * kFrame), 0);
  EXPECT_NE(a.Receive(2 * kFrame), 0);
  ExpectFault("more to receive than it is deep");
  EXPECT_EQ(a.Receive(kFrame), 0);
  control.Want("delay_us 2000000");
  EXPECT_EQ(a.Send(3 * kFrame), 0);
  EXPECT_NE(a.Send(2 * kFrame), 0);
  ExpectFault("more to send than it is deep");
}

TEST_F(FakeVerbsTest, RequiresDestructionInOrderWithoutTheErrorState) {
  Bare a(verbs, 0);
  EXPECT_NE(verbs.dealloc_pd(a.domain), 0);
  ExpectFault("protection domain goes while it has regions");
  EXPECT_NE(verbs.destroy_cq(a.queue), 0);
  ExpectFault("completion queue goes before its queue pair");
  a.Ready(5);
  ASSERT_EQ(a.Receive(), 0);
  EXPECT_NE(verbs.dereg_mr(a.region), 0);
  ExpectFault("region goes while work requests may touch it");
  EXPECT_EQ(a.Move(IBV_QPS_ERR), 0);
  EXPECT_EQ(verbs.destroy_qp(std::exchange(a.pair, nullptr)), 0);
  ExpectFault("error state before it was destroyed");
}

TEST_F(FakeVerbsTest, NoticesACompletionQueueThatIsTooShort) {
  Bare a(verbs, 0, 100);
  a.Ready(5);
  for (int i = 0; i < 65; ++i) ASSERT_EQ(a.Send(), 0);
  ExpectFault("completion queue overruns");
  ibv_wc one{};
  EXPECT_LT(ibv_poll_cq(a.queue, 1, &one), 0);
}

}  // namespace
}  // namespace mlxcomm::rdma::fake_verbs_test
