// A rail over fake queue pairs: a faulty driver may do what no fake device does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/platform/machine.h"
#include "daemon/rail/arrival_claims.h"
#include "daemon/rdma/rail_thread.h"
#include "tests/unit/looks.h"

namespace mlxcomm::rdma::rail_thread_test {
namespace {

constexpr std::uint32_t kMessages = 4;

class PaperPair final : public QueuePair {
 public:
  using Polling = std::function<std::size_t(std::span<Completion>)>;
  explicit PaperPair(Polling poll) : poll_(std::move(poll)) {}

  const QueuePairAddress& address() const override { return address_; }
  std::span<std::byte> Slot(std::uint32_t slot) override {
    return {memory_.data() + std::size_t{slot} * 4096, 4096};
  }
  absl::Status Connect(const QueuePairAddress&) override { return absl::OkStatus(); }
  absl::Status PostReceive(std::uint32_t) override { return absl::OkStatus(); }
  absl::Status PostSend(std::uint32_t, std::uint32_t) override { return absl::OkStatus(); }
  absl::Status PostSendFrom(std::uint32_t, const Region&, const std::byte*,
                            std::uint32_t) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::size_t> Poll(std::span<Completion> completions) override {
    return poll_(completions);
  }
  int descriptor() const override { return -1; }
  absl::Status Arm() override { return absl::OkStatus(); }

 private:
  const QueuePairAddress address_ = {.receives = kMessages};
  const Polling poll_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(2 * kMessages * 4096);
};

class RailThreadTest : public testing::Test {
 protected:
  std::unique_ptr<RdmaRail> Start(PaperPair::Polling poll) {
    ReadyPair ready{.pair = std::make_unique<PaperPair>(std::move(poll)),
                    .peer_receives = kMessages,
                    .connection = 1};
    auto rail = RdmaRail::Create(ready, bell);
    EXPECT_TRUE(rail.ok()) << rail.status();
    EXPECT_TRUE((*rail)->Start(false, claims).ok());
    return *std::move(rail);
  }
  // Gives up after a minute.
  static std::string WhyDown(RdmaRail& rail) {
    const std::uint64_t end = platform::MonotonicNow() + 60'000'000'000;
    rail::RailEvent event;
    while (platform::MonotonicNow() < end) {
      if (rail.Pop(event) && event.kind == rail::RailEvent::Kind::kDown) return event.reason;
    }
    return "it is up";
  }

  platform::Wakeup bell;
  rail::ArrivalClaims claims;
};

// Why: the driver returns the number, and it selects memory.
TEST_F(RailThreadTest, GoesDownOnACompletionThatWasNotPosted) {
  for (const auto& [slot, receive] :
       std::vector<std::pair<std::uint32_t, bool>>{{2 * kMessages, false},
                                                   {0xffffffff, false},
                                                   {0, false},
                                                   {kMessages, true},
                                                   {0xffffffff, true}}) {
    auto rail = Start([slot = slot, receive = receive](std::span<Completion> completions) {
      completions[0] = {slot, receive, 4096};
      return 1;
    });
    EXPECT_THAT(WhyDown(*rail), testing::HasSubstr("was not posted")) << slot << receive;
    rail->Stop();
  }
}

// Why: a daemon must stop in time, however many rails are in a driver that does not answer.
TEST_F(RailThreadTest, StopWaitsOnceForManyThatHang) {
  const auto hangs = std::make_shared<std::atomic<bool>>(true);
  const auto ended = std::make_shared<std::atomic<int>>(0);
  std::vector<std::unique_ptr<RdmaRail>> rails;
  for (int i = 0; i < 8; ++i) {
    rails.push_back(Start([hangs, ended](std::span<Completion>) {
      hangs->wait(true);
      ++*ended;
      return 0;
    }));
  }
  const std::uint64_t before = platform::MonotonicNow();
  for (const auto& rail : rails) rail->Finish();
  for (const auto& rail : rails) rail->Stop();
  EXPECT_LT(platform::MonotonicNow() - before, 6'000'000'000u);
  rails.clear();
  *hangs = false;
  hangs->notify_all();  // The calls return, and the threads touch only their own state.
  LookUntil([&] { return *ended >= 8; });
}

}  // namespace
}  // namespace mlxcomm::rdma::rail_thread_test
