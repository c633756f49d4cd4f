// The part of TcpFabric for those that are not let in.
#include <algorithm>
#include <string>

#include <spdlog/spdlog.h>

#include "daemon/platform/machine.h"
#include "daemon/transport/tcp/tcp_fabric.h"

namespace mlxcomm::fabric {

void TcpFabric::RefuseStranger(const std::string& from, const std::string& why) {
  ++strangers_refused_;
  stranger_refused_ns_ = platform::MonotonicNow();
  TellOfRefused(FabricNotice::Kind::kStrangerRefused, from, why);
}

void TcpFabric::TellOfRefused(FabricNotice::Kind kind, const std::string& from,
                              const std::string& why) {
  constexpr std::uint64_t kLoggedPerSecond = 5;
  const std::uint64_t second = platform::MonotonicNow() / 1'000'000'000;
  if (second != refusal_second_) {
    refusal_second_ = second;
    refusals_logged_in_second_ = 0;
  }
  if (refusals_logged_in_second_++ < kLoggedPerSecond) {
    spdlog::warn("refused {} at the peer port: {}", from, why);
    links_.Tell({kind, from, {}, why});
  }
}

// One host that opens many makes only its own go.
void TcpFabric::MakePlaceForStranger() {
  if (strangers_.empty() || strangers_.size() < options_.strangers_max) return;
  const auto held_by = [this](const asio::ip::address& address) {
    return std::count_if(strangers_.begin(), strangers_.end(),
                         [&](const Stranger* stranger) { return stranger->address == address; });
  };
  const auto goes = std::max_element(strangers_.begin(), strangers_.end(),
                                     [&](const Stranger* one, const Stranger* other) {
                                       return held_by(one->address) < held_by(other->address);
                                     });
  Stranger& stranger = **goes;
  strangers_.erase(goes);
  stranger.gave_way = true;
  asio::error_code ignored;
  stranger.socket.close(ignored);  // Its Accept goes on from there.
}

}  // namespace mlxcomm::fabric
