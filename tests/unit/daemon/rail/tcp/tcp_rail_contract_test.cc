// The rules for all rails, over TCP connections.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/rail/tcp/tcp_rail.h"
#include "tests/unit/daemon/link/rail_contract.h"

namespace mlxcomm::rail::tcp_rail_contract_test {
namespace {

using link::RailContractTest;
using link::RailMaker;
using link::RailMakerFactory;

std::array<int, 2> ConnectedPair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener, any, sizeof address), 0);
  EXPECT_EQ(::listen(listener, 1), 0);
  EXPECT_EQ(::getsockname(listener, any, &length), 0);
  std::array<int, 2> ends = {::socket(AF_INET, SOCK_STREAM, 0), -1};
  EXPECT_EQ(::connect(ends[0], any, sizeof address), 0);
  ends[1] = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  for (const int end : ends) ::fcntl(end, F_SETFL, O_NONBLOCK);
  return ends;
}

class TcpRails final : public RailMaker {
 public:
  ~TcpRails() override {
    for (const int cut : cuts_) ::close(cut);
  }
  std::array<std::unique_ptr<Rail>, 2> Make(platform::Wakeup& bell) override {
    std::array<std::unique_ptr<Rail>, 2> rails;
    const std::array<int, 2> ends = ConnectedPair();
    cuts_.push_back(::dup(ends[0]));
    for (std::size_t i : {0u, 1u}) {
      const auto side = i == 0 ? queue::Scheduling::kFewCores : queue::Scheduling::kManyCores;
      auto rail = TcpRail::Create(FileDescriptor(ends[i]), "here", "there",
                                  queue::SchedulingPolicy::Choose(side, 2), bell);
      EXPECT_TRUE(rail.ok());
      rails[i] = *std::move(rail);
    }
    return rails;
  }
  bool Cut(std::size_t which) override {
    ::shutdown(cuts_[which], SHUT_RDWR);
    return true;
  }

 private:
  std::vector<int> cuts_;
};

INSTANTIATE_TEST_SUITE_P(Tcp, RailContractTest, testing::Values(RailMakerFactory([] {
                           return std::make_unique<TcpRails>();
                         })));

}  // namespace
}  // namespace mlxcomm::rail::tcp_rail_contract_test
