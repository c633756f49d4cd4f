// What the fabric reports to transports with side rails: two fake ones, which both receive
// everything.
#include "daemon/fabric/side_rails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "proto/wire/frame.h"
#include "tests/unit/daemon/fabric/loopback.h"
#include "tests/unit/daemon/link/status_of.h"

namespace mlxcomm::fabric::side_rails_test {
namespace {

using testing::ElementsAre;

class PaperRails final : public SideRails {
 public:
  PaperRails(const Links& links, std::uint64_t deadline_ns)
      : links_(links), deadline_ns_(deadline_ns) {}
  void OnConnection(const Connection& connection) override { connections.push_back(connection); }
  void OnRailSetup(const NodeId&, std::span<const std::byte> payload) override {
    setups.push_back(payload.size());
  }
  void OnRailGone() override { ++gone; }
  void OnInterfaceUp(std::uint64_t) override {}
  void AddMemory(const rail::ClientMemory& memory) override { memories.push_back(memory.data); }
  void RemoveMemory(const std::byte* data) override {
    std::erase_if(memories, [data](const std::byte* one) { return one == data; });
  }
  std::size_t Turn(std::uint64_t now_ns) override {
    if (now_ns >= deadline_ns_) deadline_ns_ = kNever, ++deadlines;
    if (links_.rails_gone() > 0 && gone == 0) ++uninformed_turns;
    return 0;
  }
  std::uint64_t deadline_ns() const override { return deadline_ns_; }
  void Describe(v1::NodeStatus& status) const override {
    for (v1::LinkStatus& link : *status.mutable_links()) link.add_rails()->set_detail("of paper");
  }

  std::vector<Connection> connections;
  std::vector<std::size_t> setups;
  std::vector<const std::byte*> memories;
  int gone = 0;
  int deadlines = 0;
  int uninformed_turns = 0;  // After a rail was lost.

 private:
  const Links& links_;
  std::uint64_t deadline_ns_;
};

class SideRailsTest : public FabricTest {
 protected:
  SideRailsTest()
      : a(
            io, "a", 1, {}, 7, [](link::FabricOptions&) {},
            [this](const link::FabricOptions&, Links& links, platform::Wakeup&) {
              std::vector<std::unique_ptr<SideRails>> made;
              for (PaperRails*& one : rails) {
                auto paper =
                    std::make_unique<PaperRails>(links, made.empty() ? 1 : SideRails::kNever);
                one = paper.get();
                made.push_back(std::move(paper));
              }
              return made;
            }),
        b(std::make_unique<Node>(io_of_b, "b", std::uint8_t{2}, std::vector{a.address()})) {}
  bool RunUntilBoth(const std::function<bool(const PaperRails&)>& condition) {
    return RunUntil(both(), [&] { return condition(*rails[0]) && condition(*rails[1]); });
  }

  std::vector<Node*> both() { return {&a, b.get()}; }

  std::array<PaperRails*, 2> rails{};
  Node a;
  asio::io_context io_of_b;  // It may not run after its fabric.
  std::unique_ptr<Node> b;
};

TEST_F(SideRailsTest, LearnOfNewAndEndedConnections) {
  ASSERT_TRUE(RunUntilBoth([](const PaperRails& one) { return one.connections.size() == 1; }));
  for (const PaperRails* const one : rails) {
    EXPECT_EQ(one->connections[0].peer, b->options.self.id);
    EXPECT_EQ(one->connections[0].path, rail::RailPath("127.0.0.1", "127.0.0.1"));
    EXPECT_FALSE(one->connections[0].encrypted);
    EXPECT_EQ(one->connections[0].key, b->options.keys->current.id());
    EXPECT_THAT(one->connections[0].local,
                ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1));
  }
  b.reset();
  ASSERT_TRUE(RunUntil({&a}, [&] { return rails[0]->gone > 0 && rails[1]->gone > 0; }));
  // Why: a side sets its rail up again in its turn, and the next one may be a second away.
  for (const PaperRails* const one : rails) EXPECT_EQ(one->uninformed_turns, 0);
}

TEST_F(SideRailsTest, ReceiveAllSetupMessages) {
  ASSERT_TRUE(RunUntilBoth([](const PaperRails& one) { return one.connections.size() == 1; }));
  ASSERT_TRUE(RunUntil(both(), [&] { return b->up.size() == 1; }));
  const std::array<std::byte, wire::kRailSetupBytes> message{};
  wire::FrameHeader header;
  header.type = wire::FrameType::kRailSetup;
  header.payload_bytes = sizeof message;
  ASSERT_TRUE(b->links->Send(a.options.self.id, header, message.data(), 0).ok());
  ASSERT_TRUE(RunUntilBoth([](const PaperRails& one) { return one.setups.size() == 1; }));
  EXPECT_EQ(rails[0]->setups[0], sizeof message);
}

TEST_F(SideRailsTest, GetTurnsMemoryAndStatus) {
  ASSERT_TRUE(RunUntil(both(), [&] { return a.up.size() == 1 && rails[0]->deadlines == 1; }));
  EXPECT_EQ(rails[1]->deadlines, 0);
  std::byte memory{};
  a.fabric->AddMemory({nullptr, &memory, 1});
  for (const PaperRails* const one : rails) EXPECT_THAT(one->memories, ElementsAre(&memory));
  a.fabric->RemoveMemory(&memory);
  for (const PaperRails* const one : rails) EXPECT_TRUE(one->memories.empty());
  const std::vector<v1::LinkStatus> links = link::StatusOfLinks(*a.fabric);
  ASSERT_EQ(links.size(), 1u);
  ASSERT_EQ(links[0].rails_size(), 3);
  EXPECT_EQ(links[0].rails(2).detail(), "of paper");
}

}  // namespace
}  // namespace mlxcomm::fabric::side_rails_test
