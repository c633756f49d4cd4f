// Many operations at once, and one fault at some moment: whatever the schedule, every call is
// answered exactly once, and nothing is left behind.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/ground/expected_result.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::collective::faults_test {
namespace {

enum class Fault { kNone, kRankGone, kNodeLost, kCancel, kDeadline };

const char* NameOf(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "None";
    case Fault::kRankGone: return "RankGone";
    case Fault::kNodeLost: return "NodeLost";
    case Fault::kCancel: return "Cancel";
    case Fault::kDeadline: return "Deadline";
  }
  return "";
}

// One seed's run: a program for each rank, in an order and with a fault that follow from
// the seed.
class Chaos {
 public:
  Chaos(std::uint32_t seed, Fault fault)
      : random_(seed),
        nodes_(3 + static_cast<int>(seed % 2)),
        ranks_per_node_(1 + static_cast<int>(seed / 2 % 2)),
        fault_(fault),
        cluster_(nodes_, ranks_per_node_, seed) {
    programs_.resize(cluster_.size());
    for (int i = 0; i < kOperations; ++i) AddOperation();
    fault_after_ = Below(kOperations * cluster_.size() * 6);
  }

  void Run() {
    std::uint64_t moves = 0;
    while (true) {
      if (fault_ != Fault::kNone && !fault_done_ && moves++ >= fault_after_) DoFault();
      const bool submitted = Below(3) == 0 && SubmitOne();
      const bool moved = cluster_.RunOne();
      TakeBack();
      if (submitted || moved || SubmitOne()) continue;
      if (fault_ == Fault::kNone || fault_done_) break;
      DoFault();
    }
    cluster_.Advance(Inquest::kReportWaitNs);
    cluster_.Advance(Inquest::kReportWaitNs);
    TakeBack();
  }

  void Check() {
    EXPECT_EQ(cluster_.violations, 0u);
    for (std::uint32_t rank = 0; rank < cluster_.size(); ++rank) {
      if (!cluster_.IsGone(cluster_.node_of(rank))) CheckAnswers(rank);
    }
    for (int node = 0; node < nodes_; ++node) {
      if (!cluster_.IsGone(node)) CheckNothingIsLeft(node);
    }
  }

 private:
  static constexpr int kOperations = 10;
  static constexpr std::uint64_t kTimeoutNs = 1'000'000'000;

  struct Planned {
    oracle::Operation operation;
    Call call;
    oracle::Bytes input, output;
    bool submitted = false;
    bool given_back = false;  // It failed; nothing may write there any more.
  };

  std::uint32_t Below(std::uint64_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  void AddOperation() {
    static constexpr std::uint64_t kCounts[] = {0, 1, 100, 1000, 4200};
    static constexpr std::uint64_t kSeveralChunks = 66'000;
    static constexpr OperationKind kKinds[] = {
        OperationKind::kAllReduce, OperationKind::kAllGather, OperationKind::kReduceScatter,
        OperationKind::kBroadcast, OperationKind::kReduce,    OperationKind::kAllToAll,
        OperationKind::kGather,    OperationKind::kScatter,   OperationKind::kBarrier,
        OperationKind::kSend,      OperationKind::kSend,      OperationKind::kSend};
    oracle::Operation o;
    o.kind = kKinds[Below(std::size(kKinds))];
    o.type = DataType::kInt32;
    o.op = Reduces(o.kind) ? ReduceOperator::kSum : ReduceOperator::kNone;
    o.count = o.kind == OperationKind::kBarrier ? 0 : kCounts[Below(std::size(kCounts))];
    if (o.count == 4200 && Below(6) == 0) o.count = kSeveralChunks;
    o.size = cluster_.size();
    if (HasRoot(o.kind)) o.root = Below(o.size);
    const auto plan = static_cast<PlanKind>(Below(static_cast<int>(PlanKind::kTree) + 1));
    if (o.kind == OperationKind::kSend) return AddMessages(o);
    for (std::uint32_t rank = 0; rank < o.size; ++rank) Plan(rank, o, plan).call.peer_rank = 0;
  }

  // More than the credit allows, received in another order.
  void AddMessages(oracle::Operation o) {
    const std::uint32_t from = Below(o.size);
    const std::uint32_t to = (from + 1 + Below(o.size - 1)) % o.size;
    const std::uint32_t first_tag = next_tag_;
    const std::uint32_t messages = o.count < 1000 ? 1 + Below(2 * kEagerCredits) : 2;
    next_tag_ += messages;
    for (std::uint32_t i = 0; i < messages; ++i) {
      o.kind = OperationKind::kSend;
      Planned& send = Plan(from, o, PlanKind::kAutomatic);
      send.call.peer_rank = to;
      send.call.tag = first_tag + i;
      o.kind = OperationKind::kReceive;
      Planned& receive = Plan(to, o, PlanKind::kAutomatic);
      receive.operation.root = from;
      receive.call.peer_rank = from;
      receive.call.tag = next_tag_ - 1 - i;
    }
  }

  Planned& Plan(std::uint32_t rank, const oracle::Operation& o, PlanKind plan) {
    auto& program = programs_[rank];
    program.push_back(std::make_unique<Planned>());
    Planned& planned = *program.back();
    const OperationShape shape = o.ShapeFor(rank);
    planned.operation = o;
    planned.input = oracle::Input(o.type, o.op, rank, shape.input_elements);
    planned.output.assign(shape.output_elements * DataTypeBytes(o.type), std::byte{0xee});
    planned.call.ticket = program.size();
    planned.call.signature = {o.kind, o.type, o.op, o.count, o.root, plan};
    planned.call.input = planned.input.data();
    planned.call.output = planned.output.data();
    planned.call.timeout_ns = kTimeoutNs;
    return planned;
  }

  // False: all ranks have called everything, or cannot any more.
  bool SubmitOne() {
    std::vector<std::uint32_t> able;
    for (std::uint32_t rank = 0; rank < cluster_.size(); ++rank) {
      const bool here = !cluster_.IsGone(cluster_.node_of(rank)) && rank != gone_rank_;
      if (here && submitted_[rank] < programs_[rank].size()) able.push_back(rank);
    }
    if (able.empty()) return false;
    const std::uint32_t rank = able[Below(able.size())];
    Planned& planned = *programs_[rank][submitted_[rank]++];
    planned.submitted = true;
    cluster_.Submit(rank, planned.call);
    return true;
  }

  void DoFault() {
    fault_done_ = true;
    const std::uint32_t rank = Below(cluster_.size());
    const int node = cluster_.node_of(rank);
    Collectives& core = cluster_.core(node);
    Group& group = *core.Find(SimulatedCluster::kGroup);
    switch (fault_) {
      case Fault::kNone: return;
      case Fault::kRankGone:
        gone_rank_ = rank;
        group.OnLocalRankGone(rank, "its process ended", cluster_.now_ns);
        break;
      case Fault::kNodeLost: return cluster_.LoseNode(node);
      case Fault::kCancel:
        group.Cancel(rank + 1, 1 + Below(programs_[rank].size() + 1), cluster_.now_ns);
        break;
      case Fault::kDeadline: return cluster_.Tick(kTimeoutNs);
    }
    cluster_.Carry(node);
  }

  // Uses the buffers of failed calls for something else, as a client would.
  void TakeBack() {
    for (auto& [session, completions] : cluster_.completions) {
      for (std::size_t& seen = seen_[session]; seen < completions.size(); ++seen) {
        const auto& completion = completions[seen];
        if (completion.failure.ok()) continue;
        Planned& planned = *programs_[session - 1].at(completion.ticket - 1);
        planned.given_back = true;
        planned.output.assign(planned.output.size(), std::byte{0xab});
      }
    }
  }

  void CheckAnswers(std::uint32_t rank) {
    std::map<std::uint64_t, int> answers;
    bool all_well = true;
    for (const auto& completion : cluster_.completions[rank + 1]) {
      ++answers[completion.ticket];
      all_well = all_well && completion.failure.ok();
      EXPECT_TRUE(completion.failure.ok() || !completion.failure.message.empty());
    }
    EXPECT_TRUE(all_well || fault_ != Fault::kNone) << "rank " << rank;
    for (const auto& planned : programs_[rank]) {
      const std::uint64_t ticket = planned->call.ticket;
      ASSERT_EQ(answers[ticket], planned->submitted ? 1 : 0)
          << "rank " << rank << ", " << planned->call.signature.Describe();
      if (planned->given_back) {
        ASSERT_EQ(planned->output, oracle::Bytes(planned->output.size(), std::byte{0xab}))
            << "rank " << rank << ": written after it was given back";
      } else if (planned->submitted) {
        ASSERT_EQ(oracle::FirstWrong(planned->operation, rank, planned->output), -1)
            << "rank " << rank << ", " << planned->call.signature.Describe();
      }
    }
  }

  void CheckNothingIsLeft(int node) {
    EXPECT_EQ(cluster_.scratch(node).used_bytes(), 0u) << "node " << node;
    Collectives& core = cluster_.core(node);
    Group& group = *core.Find(SimulatedCluster::kGroup);
    EXPECT_EQ(group.stashed_frames(), 0u) << "node " << node;
    for (const std::uint32_t rank : group.layout().local_ranks()) {
      group.OnLocalRankDetached(rank, cluster_.now_ns);
    }
    EXPECT_TRUE(core.RemoveIfOver(SimulatedCluster::kGroup)) << "node " << node;
  }

  std::mt19937 random_;
  int nodes_;
  int ranks_per_node_;
  Fault fault_;
  SimulatedCluster cluster_;
  std::vector<std::vector<std::unique_ptr<Planned>>> programs_;  // By rank.
  std::map<std::uint32_t, std::size_t> submitted_;
  std::map<SessionId, std::size_t> seen_;
  std::uint32_t next_tag_ = 0;
  std::uint64_t fault_after_ = 0;
  bool fault_done_ = false;
  std::uint32_t gone_rank_ = ~0u;
};

class FaultsTest : public testing::TestWithParam<Fault> {};

// Why: operations under way meet the failure of another in states that no test would think of.
// How: a seed gives layout, operations, plans, order and the fault's moment; to repeat one, run its
// seed alone.
TEST_P(FaultsTest, EveryCallIsAnsweredOnceAndNothingIsLeft) {
  for (std::uint32_t seed = 1; seed <= Seeds(15); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chaos chaos(seed, GetParam());
    chaos.Run();
    chaos.Check();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultsTest,
                         testing::Values(Fault::kNone, Fault::kRankGone, Fault::kNodeLost,
                                         Fault::kCancel, Fault::kDeadline),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

}  // namespace
}  // namespace mlxcomm::collective::faults_test
