// The part of TcpFabric that shows links and connections to status.
#include <algorithm>
#include <vector>

#include "daemon/transport/tcp/tcp_fabric.h"

namespace mlxcomm::fabric {

std::vector<LinkSnapshot> TcpFabric::Snapshot() const {
  std::vector<LinkSnapshot> snapshots = links_.Snapshot();
  for (const auto& dialer : dialers_) {
    if (dialer->removed || HasRail(*dialer)) continue;
    const auto link = std::find_if(
        snapshots.begin(), snapshots.end(),
        [&](const LinkSnapshot& one) { return dialer->known && one.peer_id == dialer->peer; });
    if (link == snapshots.end()) {
      LinkSnapshot& snapshot = snapshots.emplace_back();
      snapshot.peer = dialer->address;
      snapshot.state = LinkState::kConnecting;
      snapshot.reason = dialer->reason;
      snapshot.detail = dialer->detail;
      continue;
    }
    // A cable of a link that is up over others, or in grace.
    RailSnapshot& rail = link->rails.emplace_back();
    rail.transport = Transport::kTcp;
    rail.remote_address = dialer->address;
    rail.local_interface = dialer->path.local;
    rail.remote_interface = dialer->path.remote;
    rail.reason = dialer->reason;
    rail.detail = dialer->detail;
  }
  for (const auto& side : side_rails_) side->Describe(snapshots);
  return snapshots;
}

}  // namespace mlxcomm::fabric
