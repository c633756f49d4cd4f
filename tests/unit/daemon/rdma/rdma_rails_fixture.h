// Two fabrics over loopback with RDMA rails beside their connection, over the fake verbs.
//
// Owner: a test. Thread: its own, which is both loops. Memory: the fabrics'.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/platform/machine.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/rdma/rdma_rails.h"
#include "tests/unit/daemon/fabric/loopback.h"
#include "tests/unit/daemon/fabric/some_keys.h"
#include "tests/unit/daemon/link/status_of.h"
#include "tests/unit/daemon/rdma/fake_verbs_control.h"

namespace mlxcomm::fabric {

// A client's arena; touching it after it was unmapped crashes the test.
class Arena {
 public:
  static constexpr std::size_t kBytes = 8 * 1024 * 1024;

  Arena() {
    auto segment = std::make_shared<platform::SharedSegment>(
        *platform::SharedSegment::Create("arena", kBytes));
    data_ = segment->data();
    descriptor_ = segment->descriptor();
    owner_ = std::move(segment);
    mapped_ = owner_;
  }
  std::span<std::byte> bytes() const { return {data_, kBytes}; }
  rail::ClientMemory memory() const { return {owner_, data_, kBytes, descriptor_}; }
  void LetGo() { owner_.reset(); }
  bool is_mapped() const { return !mapped_.expired(); }

 private:
  std::byte* data_ = nullptr;
  int descriptor_ = -1;
  std::shared_ptr<const void> owner_;
  std::weak_ptr<const void> mapped_;
};

class RdmaRailsTest : public FabricTest {
 protected:
  ~RdmaRailsTest() override {
    EXPECT_EQ(control.TakeFaults(), "");
    control.Want("");
  }
  // Changes both nodes' options for a test; it may check `fabric.self`.
  using Change = std::function<void(link::FabricOptions& fabric, rdma::RdmaOptions& rdma)>;
  void Join(const Change& change = [](link::FabricOptions&, rdma::RdmaOptions&) {}) {
    a = NodeOf("a", 1, {}, change);
    cable = std::make_unique<LoopbackCable>(io, a->address());
    b = NodeOf("b", 2, {cable->address()}, change);
  }
  std::unique_ptr<Node> NodeOf(const std::string& name, std::uint8_t id,
                               std::vector<std::string> connect, const Change& change) {
    rdma::RdmaOptions rdma;
    rdma.enabled = true;
    rdma.library = FAKE_VERBS_LIBRARY;
    rdma.probe_program = PROBE_PROGRAM;
    rdma.driver_program = PROBE_PROGRAM;
    rdma.probe_timeout_ns = 60'000'000'000;
    const auto change_both = [&](link::FabricOptions& fabric) {
      fabric.heartbeat_interval_ns = 50'000'000;
      fabric.heartbeat_timeout_ns = 1'000'000'000;
      change(fabric, rdma);
    };
    const auto make = [&](const link::FabricOptions& fabric, fabric::Links& links,
                          platform::Wakeup& bell) {
      std::vector<std::unique_ptr<fabric::SideRails>> made;
      made.push_back(std::make_unique<rdma::RdmaRails>(rdma, fabric, links, bell));
      return made;
    };
    return std::make_unique<Node>(io, name, id, std::move(connect), std::uint8_t{7}, change_both,
                                  make);
  }
  std::vector<Node*> both() { return {a.get(), b.get()}; }
  static const v1::RailStatus* RailOf(const std::vector<v1::LinkStatus>& links,
                                      v1::Transport::Value transport) {
    for (const v1::LinkStatus& link : links) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.transport() == transport) return &rail;
      }
    }
    return nullptr;
  }
  static bool IsUp(const Node& node, v1::Transport::Value transport) {
    const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*node.fabric);
    const v1::RailStatus* const rail = RailOf(links, transport);
    return rail != nullptr && rail->state() == v1::RailState::up;
  }
  static std::string Detail(const Node& node) {
    const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*node.fabric);
    const v1::RailStatus* const rail = RailOf(links, v1::Transport::rdma);
    return rail == nullptr ? "no rail" : rail->detail();
  }
  static bool ProvedWith(const Node& node, std::uint8_t key) {
    const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*node.fabric);
    for (const v1::Transport::Value transport : {v1::Transport::tcp, v1::Transport::rdma}) {
      const v1::RailStatus* const rail = RailOf(links, transport);
      if (rail == nullptr || rail->key_id() != KeyOf(key).IdText()) return false;
    }
    return true;
  }
  bool BothUp() { return IsUp(*a, v1::Transport::rdma) && IsUp(*b, v1::Transport::rdma); }
  bool BothDown(v1::Transport::Value transport) {
    return !IsUp(*a, transport) && !IsUp(*b, transport);
  }
  // How many of SendChunks' chunks `a` has been given back.
  std::ptrdiff_t Released() const { return std::ranges::count(a->released, std::uint64_t{9}); }
  void Carry(std::size_t bytes) {
    std::vector<std::byte> source(bytes);
    Carry(source);
  }
  void Carry(std::span<std::byte> source) {
    const std::size_t bytes = source.size();
    for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 999);
    std::vector<std::byte> target(bytes);
    const std::uint64_t had = b->data_bytes;
    const std::ptrdiff_t released = Released();
    const std::uint64_t chunk = 256 * 1024;
    SendChunks(*a, *b, source, target, chunk);
    ASSERT_TRUE(RunUntil(both(),
                         [&] {
                           return b->data_bytes == had + bytes &&
                                  Released() ==
                                      released + static_cast<std::ptrdiff_t>(bytes / chunk);
                         }))
        << "of " << bytes << " bytes have come " << b->data_bytes - had;
    EXPECT_TRUE(std::equal(source.begin(), source.end(), target.begin()));
  }
  static v1::RailStatus Rdma(const Node& node) {
    const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*node.fabric);
    const v1::RailStatus* const rail = RailOf(links, v1::Transport::rdma);
    return rail == nullptr ? v1::RailStatus() : *rail;
  }
  // Sends from the arena until some of it was sent without a copy.
  void CarryUntilDirect(const Arena& arena) {
    const std::uint64_t before = Rdma(*a).direct_bytes();
    for (int i = 0; i < 100 && Rdma(*a).direct_bytes() == before; ++i) Carry(arena.bytes());
    ASSERT_GT(Rdma(*a).direct_bytes(), before);
  }

  rdma::FakeVerbsControl control;
  std::unique_ptr<Node> a;
  std::unique_ptr<LoopbackCable> cable;
  std::unique_ptr<Node> b;
};

}  // namespace mlxcomm::fabric
