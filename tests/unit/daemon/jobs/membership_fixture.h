// One node with two ranks of a job (sessions 1 and 2, ranks 0 and 1), and a third rank on another
// node.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/membership.h"
#include "tests/unit/daemon/collective/numbered_node.h"

namespace mlxcomm::jobs {

class MembershipTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kWorld = 7;

  MembershipTest() {
    collective::LinkCosts costs;
    costs.latency_ns = 777;
    EXPECT_TRUE(membership.AddWorld(kWorld, {"", "train"},
                                    {{self, "a", 100}, {self, "a", 101}, {remote, "b", 102}},
                                    {1, 2, 0}, costs, 0));
  }

  Failure Split(SessionId session, std::uint64_t group, std::vector<std::uint32_t> ranks,
                std::uint64_t parent = kWorld, const std::string& name = "rows") {
    return membership.Split(session, {group, parent, 1, std::move(ranks), name}, 0);
  }
  void Barrier(std::uint64_t group, std::uint32_t rank, SessionId session) {
    collective::Call call;
    call.session = session;
    call.ticket = 1;
    call.rank = rank;
    call.signature.kind = OperationKind::kBarrier;
    call.timeout_ns = 1;
    core.Submit(group, call, 0);
  }
  void CarryOut() {
    while (!core.actions().empty()) {
      collective::ActionQueue actions;
      actions.swap(core.actions());
      using Kind = collective::Action::Kind;
      for (const collective::Action& action : actions) {
        if (action.kind == Kind::kLocalWork) core.OnLocalWorkDone(action.cookie, 0);
        if (action.kind == Kind::kComplete && action.failure.ok()) ++completed;
      }
    }
  }
  // 0 if the system does not report it.
  static std::uint64_t ResidentBytes() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t total = 0;
    std::uint64_t resident = 0;
    file >> total >> resident;
    return resident * 4096;
  }

  // No operation here is large enough to need any.
  class NoScratch final : public collective::ScratchMemory {
   public:
    std::byte* Take(std::uint64_t) override { return nullptr; }
    void Return(std::byte*) override {}
    std::uint64_t used_bytes() const override { return 0; }
    std::uint64_t limit_bytes() const override { return 0; }
  };

  NodeId self = collective::NumberedNode(1);
  NodeId remote = collective::NumberedNode(2);
  NoScratch scratch;
  collective::Collectives core{self, scratch};
  Membership membership{core};
  std::uint64_t completed = 0;
};

}  // namespace mlxcomm::jobs
