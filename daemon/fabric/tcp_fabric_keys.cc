// The part of TcpFabric for strangers and for changes of the cluster's key.
#include <algorithm>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/fabric/tcp_fabric.h"
#include "daemon/platform/machine.h"

namespace mlxcomm::fabric {

// Cached, because deriving an id takes memory.
void TcpFabric::CacheKeyIds() {
  accepted_.clear();
  if (!options_.keys.has_value()) return;
  accepted_.push_back(options_.keys->current.id());
  if (options_.keys->previous.has_value()) accepted_.push_back(options_.keys->previous->id());
}

// A dialer that was refused for the old keys retries at once.
void TcpFabric::SetKeys(const ClusterKeys& keys) {
  options_.keys = keys;
  CacheKeyIds();
  for (const auto& dialer : dialers_) {
    if (dialer->waits == Dialer::Waits::kInBackOff) dialer->pause.cancel();
  }
  CheckProofs(platform::MonotonicNow());
}

std::vector<std::string> TcpFabric::key_ids() const {
  std::vector<std::string> ids;
  for (const ClusterKeyId& key : accepted_) ids.push_back(KeyIdText(key));
  return ids;
}

bool TcpFabric::IsAccepted(const ClusterKeyId& key) const {
  return std::ranges::find(accepted_, key) != accepted_.end();
}

// Finds the rails that must be proved again. Requests new proofs and gives up rails that take too
// long.
void TcpFabric::CheckProofs(std::uint64_t now_ns) {
  next_proof_check_ns_ = now_ns + options_.heartbeat_interval_ns;
  if (stopped_) return;
  std::map<RailKey, std::uint64_t> found;
  std::vector<RailKey> too_old;
  links_.ForEachConnection([&](const NodeId& peer, const rail::RailPath& path, rail::Rail& rail) {
    const bool is_accepted = IsAccepted(rail.proved_with());
    if (is_accepted && !rail.is_asked_for_new_proof()) return;
    const auto before = outdated_.find({peer, path});
    const std::uint64_t since_ns = before == outdated_.end() ? now_ns : before->second;
    found.emplace(RailKey(peer, path), since_ns);
    if (is_accepted) return;  // Only the peer wants a new proof, and it enforces that.
    rail.AskForNewProof();
    if (now_ns - since_ns >= options_.new_proof_timeout_ns) too_old.emplace_back(peer, path);
  });
  outdated_ = std::move(found);
  for (const auto& [peer, path] : too_old) {
    links_.RemoveRail(peer, path, "it was proved with a key that is no longer accepted",
                      LinkReason::kKeyRetired, now_ns);
  }
  for (const auto& dialer : dialers_) {
    if (dialer->waits == Dialer::Waits::kForRailToGo && !IsLinked(*dialer)) dialer->pause.cancel();
  }
}

void TcpFabric::RefuseStranger(const std::string& from, const std::string& why) {
  ++strangers_refused_;
  stranger_refused_ns_ = platform::MonotonicNow();
  ReportRefused(link::FabricNotice::Kind::kStrangerRefused, from, why);
}

void TcpFabric::ReportRefused(link::FabricNotice::Kind kind, const std::string& from,
                              const std::string& why) {
  constexpr std::uint64_t kLoggedPerSecond = 5;
  const std::uint64_t second = platform::MonotonicNow() / 1'000'000'000;
  if (second != refusal_second_) {
    refusal_second_ = second;
    refusals_logged_in_second_ = 0;
  }
  if (refusals_logged_in_second_++ < kLoggedPerSecond) {
    spdlog::warn("refused {} at the peer port: {}", from, why);
    links_.Report({kind, from, {}, why});
  }
}

// Closes the oldest stranger of the address that has the most.
void TcpFabric::MakePlaceForStranger() {
  if (strangers_.empty() || strangers_.size() < options_.strangers_max) return;
  const auto held_by = [this](const asio::ip::address& address) {
    return std::ranges::count_if(
        strangers_, [&](const Stranger* stranger) { return stranger->address == address; });
  };
  const auto goes = std::ranges::max_element(
      strangers_, {}, [&](const Stranger* one) { return held_by(one->address); });
  Stranger& stranger = **goes;
  strangers_.erase(goes);
  stranger.gave_way = true;
  asio::error_code ignored;
  stranger.socket.close(ignored);  // Its Accept continues from there.
}

}  // namespace mlxcomm::fabric
