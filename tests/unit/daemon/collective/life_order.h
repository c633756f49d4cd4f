// An observer that checks the order of an operation's events, under any schedule that a test makes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "daemon/collective/operation_observer.h"

namespace mlxcomm::collective {

class LifeOrder final : public OperationObserver {
 public:
  void OnCalled(const Operation& operation, const Operation::LocalCall& local) override {
    Life& life = lives_[operation.key];
    EXPECT_FALSE(life.matched) << "called after it began";
    EXPECT_TRUE(life.ranks.insert(local.call.rank).second) << "called twice by one rank";
  }
  void OnPeerFrame(const Operation& operation, std::uint16_t, std::uint32_t) override {
    EXPECT_TRUE(operation.in_use);
  }
  void OnMatched(const Operation& operation) override {
    Life& life = lives_[operation.key];
    EXPECT_FALSE(life.ranks.empty());
    EXPECT_FALSE(life.matched);
    life.matched = true;
  }
  void OnMoved(const Operation& operation) override {
    Life& life = lives_[operation.key];
    EXPECT_TRUE(life.matched) << "moved before it began";
    const Execution::Traffic& traffic = operation.execution.traffic();
    EXPECT_GT(traffic.changes, life.traffic.changes);
    EXPECT_GE(traffic.sent_bytes, life.traffic.sent_bytes);
    EXPECT_GE(traffic.received_bytes, life.traffic.received_bytes);
    life.traffic = traffic;
  }
  void OnEnded(const Operation& operation, FailureCode code) override {
    const auto life = lives_.find(operation.key);
    const bool called = life != lives_.end();
    if (code == FailureCode::kNone) {
      EXPECT_TRUE(called && life->second.matched) << "succeeded without beginning";
      EXPECT_EQ(operation.execution.traffic().changes, life->second.traffic.changes);
    }
    if (called) lives_.erase(life);
  }
  void OnGroupFailed(std::uint64_t group, const std::string&, const Failure& verdict,
                     const OperationKey&) override {
    EXPECT_TRUE(failed_.insert(group).second) << "failed twice";
    EXPECT_FALSE(verdict.ok());
  }

  // Operations that a local rank has called and that have not ended.
  std::size_t live() const { return lives_.size(); }

 private:
  struct Life {
    std::set<std::uint32_t> ranks;
    bool matched = false;
    Execution::Traffic traffic;
  };
  std::map<OperationKey, Life> lives_;
  std::set<std::uint64_t> failed_;
};

}  // namespace mlxcomm::collective
