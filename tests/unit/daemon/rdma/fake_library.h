// Queue pairs of the fake verbs, loaded like the system's library; a broken rule fails the test.
//
// Owner: a test. Thread: its own. Memory: what the queue pairs have.
#pragma once

#include <memory>
#include <utility>

#include "tests/unit/daemon/rdma/fake_verbs_control.h"

namespace mlxcomm::rdma {

class FakeLibraryTest : public testing::Test {
 protected:
  ~FakeLibraryTest() override {
    EXPECT_EQ(TakeFaults(), "");
    Want("");
  }
  void Want(const std::string& lines) { control_.Want(lines); }
  std::string TakeFaults() { return control_.TakeFaults(); }

  std::shared_ptr<Device> Open(const std::string& name, const Limits& limits = {}) {
    auto opened = OpenDevice(library_, name, limits);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *opened : nullptr;
  }
  // Two connected queue pairs, one on each device.
  std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>> Connected(
      const Limits& limits = {}) {
    const QueuePairShape shape{limits.service, limits.message_bytes, limits.messages_max};
    auto a = Open("rdma_en1", limits)->MakeQueuePair(shape, Ipv4Gid(1));
    auto b = Open("rdma_en2", limits)->MakeQueuePair(shape, Ipv4Gid(2));
    EXPECT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    EXPECT_TRUE((*a)->Connect((*b)->address()).ok());
    EXPECT_TRUE((*b)->Connect((*a)->address()).ok());
    return {*std::move(a), *std::move(b)};
  }

  FakeVerbsControl control_;
  std::string library_ = FAKE_VERBS_LIBRARY;
};

}  // namespace mlxcomm::rdma
