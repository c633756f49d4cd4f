// The rules for all rails, over queue pairs of the fake verbs: Apple's kind, Linux's kind, and one
// that loses messages. Also over two devices of this machine, if
// MLXCOMM_TEST_RDMA="rxe0=10.77.0.1,rxe1=10.77.0.2" names them and their addresses.
#include <arpa/inet.h>

#include <cstdlib>

#include "daemon/rdma/rail_thread.h"
#include "tests/unit/daemon/link/rail_contract.h"
#include "tests/unit/daemon/rdma/fake_verbs_control.h"
#include "tests/unit/looks.h"

namespace mlxcomm::fabric::rdma_rail_contract_test {
namespace {

using link::kCutsMin;
using link::RailContractTest;
using link::RailMaker;
using link::RailMakerFactory;

using rdma::FakeVerbsControl;
using rdma::Ipv4Gid;

struct Devices {
  std::string library = FAKE_VERBS_LIBRARY;
  std::string names[2] = {"rdma_en1", "rdma_en2"};
  rdma::Gid gids[2] = {Ipv4Gid(1), Ipv4Gid(2)};
};

class RdmaRails final : public RailMaker {
 public:
  RdmaRails(const Devices& on, const rdma::Limits& limits, const std::string& wanted)
      : is_fake_(!on.library.empty()), limits_(limits) {
    control_.Want(wanted);
    for (std::size_t i : {0u, 1u}) {
      gids_[i] = on.gids[i];
      auto device = rdma::OpenDevice(on.library, on.names[i], limits);
      EXPECT_TRUE(device.ok()) << device.status();
      devices_[i] = *std::move(device);
    }
  }
  ~RdmaRails() override {
    // Threads end with some delay.
    for (const auto& device : devices_) {
      LookUntil([&device] { return device->use().queue_pairs == 0; });
    }
    EXPECT_EQ(control_.TakeFaults(), "");
    control_.Want("");
  }
  std::array<std::unique_ptr<rail::Rail>, 2> Make(platform::Wakeup& bell) override {
    const rdma::QueuePairShape shape{limits_.service, limits_.message_bytes, limits_.messages_max};
    std::array<std::unique_ptr<rdma::QueuePair>, 2> pairs;
    for (std::size_t i : {0u, 1u}) {
      auto made = devices_[i]->MakeQueuePair(shape, gids_[i]);
      // Queue pairs of ended rails may still exist.
      while (absl::IsResourceExhausted(made.status())) {
        made = devices_[i]->MakeQueuePair(shape, gids_[i]);
      }
      EXPECT_TRUE(made.ok()) << made.status();
      pairs[i] = *std::move(made);
    }
    for (std::size_t i : {0u, 1u}) {
      EXPECT_TRUE(pairs[i]->Connect(pairs[1 - i]->address()).ok());
    }
    numbers_.push_back({pairs[0]->address().number, pairs[1]->address().number});
    const std::uint32_t receives[2] = {pairs[0]->messages(), pairs[1]->messages()};
    std::array<std::unique_ptr<rail::Rail>, 2> rails;
    for (std::size_t i : {0u, 1u}) {
      rdma::ReadyPair ready{.pair = std::move(pairs[i]),
                            .service = limits_.service,
                            .peer_receives = receives[1 - i],
                            .connection = numbers_.size(),
                            .local_address = "here",
                            .remote_address = "there"};
      const auto side = i == 0 ? queue::Scheduling::kFewCores : queue::Scheduling::kManyCores;
      ready.scheduling = queue::SchedulingPolicy::Choose(side, 2);
      auto rail = rdma::RdmaRail::Create(ready, bell);
      EXPECT_TRUE(rail.ok()) << rail.status();
      rails[i] = *std::move(rail);
    }
    return rails;
  }
  // Its work fails, sometimes at one end only: the other one notices by silence, which takes time.
  // A test cannot break real ones.
  bool Cut(std::size_t which) override {
    if (!is_fake_) return false;
    control_.BreakPair(numbers_[which][0]);
    if (which % 64 != 0) control_.BreakPair(numbers_[which][1]);
    return true;
  }
  std::size_t cuts_max() const override { return is_fake_ ? RailMaker::cuts_max() : kCutsMin; }
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  std::uint32_t steps_divisor() const override { return 8; }  // A tenth of the speed, or less.
#else
  std::uint32_t steps_divisor() const override { return is_fake_ ? 1 : 3; }
#endif

 private:
  const bool is_fake_;
  FakeVerbsControl control_;
  const rdma::Limits limits_;
  std::array<rdma::Gid, 2> gids_;
  std::array<std::shared_ptr<rdma::Device>, 2> devices_;
  std::vector<std::array<std::uint32_t, 2>> numbers_;
};

RailMakerFactory Rails(const rdma::Limits& limits, const std::string& wanted,
                       const Devices& on = {}) {
  return [=] { return std::make_unique<RdmaRails>(on, limits, wanted); };
}

// Both services, if two devices are named.
std::vector<RailMakerFactory> RailsOfThisMachine() {
  const char* const text = std::getenv("MLXCOMM_TEST_RDMA");
  if (text == nullptr) return {};
  Devices on;
  on.library.clear();
  std::istringstream in(text);
  for (std::size_t i = 0; i < 2; ++i) {
    std::string address;
    std::getline(in, on.names[i], '=');
    std::getline(in, address, ',');
    on.gids[i] = Ipv4Gid(0);
    EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), on.gids[i].data() + 12), 1) << text;
  }
  return {Rails({}, "", on), Rails(rdma::LinuxLimits(), "", on)};
}

INSTANTIATE_TEST_SUITE_P(Apple, RailContractTest, testing::Values(Rails({}, "")));
INSTANTIATE_TEST_SUITE_P(Linux, RailContractTest,
                         testing::Values(Rails(rdma::LinuxLimits(), "unreliable_only 0")));
INSTANTIATE_TEST_SUITE_P(Lossy, RailContractTest, testing::Values(Rails({}, "loss 0.01")));
INSTANTIATE_TEST_SUITE_P(Machine, RailContractTest, testing::ValuesIn(RailsOfThisMachine()));

}  // namespace
}  // namespace mlxcomm::fabric::rdma_rail_contract_test
