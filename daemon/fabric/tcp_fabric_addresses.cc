// The part of TcpFabric for addresses that come and go at run time, and for status.
#include <algorithm>
#include <string>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/fabric/tcp_fabric.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/status_words.h"

namespace mlxcomm::fabric {

absl::StatusOr<std::uint16_t> TcpFabric::AddListener(const std::string& address) {
  if (stopped_) return absl::AbortedError("stopping");
  if (!options_.keys.has_value()) {
    return absl::FailedPreconditionError(
        "listening for peers needs the cluster's key: set peers { key_file }");
  }
  if (const absl::Status status = Listen(address); !status.ok()) return status;
  Activate();
  asio::error_code error;
  const Tcp::endpoint endpoint = listeners_.back()->acceptor.local_endpoint(error);
  if (error) return absl::UnavailableError(absl::StrCat(address, ": ", error.message()));
  return endpoint.port();
}

// The accept loop notices the closed socket and deletes the listener.
void TcpFabric::RemoveListener(const std::string& address) {
  for (const auto& listener : listeners_) {
    asio::error_code ignored;
    if (listener->address == address) listener->acceptor.close(ignored);
  }
}

absl::Status TcpFabric::AddPeer(const std::string& address) {
  if (stopped_) return absl::AbortedError("stopping");
  if (!options_.keys.has_value()) {
    return absl::FailedPreconditionError(
        "dialing peers needs the cluster's key: set peers { key_file }");
  }
  const bool there = std::ranges::any_of(dialers_, [&](const auto& dialer) {
    return dialer->address == address && dialer->added && !dialer->removed;
  });
  if (there) return absl::OkStatus();
  dialers_.push_back(std::make_unique<Dialer>(io_, address));
  dialers_.back()->added = true;
  Activate();
  asio::co_spawn(io_, DialLoop(*dialers_.back()), asio::detached);
  return absl::OkStatus();
}

// Ends what the dialer waits for; its loop then deletes it.
void TcpFabric::RemovePeer(const std::string& address) {
  for (const auto& dialer : dialers_) {
    if (dialer->address != address || !dialer->added) continue;
    dialer->removed = true;
    dialer->pause.cancel();
    if (dialer->known) UpdateClaims(dialer->peer);
  }
}

void TcpFabric::Describe(v1::NodeStatus& status) const {
  links_.Describe(status);
  for (const auto& dialer : dialers_) {
    if (dialer->removed || HasRail(*dialer)) continue;
    v1::LinkStatus* const known =
        dialer->known ? FindLink(status, dialer->peer.ToString()) : nullptr;
    if (known == nullptr) {
      v1::LinkStatus& link = *status.add_links();
      link.set_peer(dialer->address);
      link.set_state(v1::LinkState::connecting);
      link.set_reason(Reported(dialer->reason));
      link.set_detail(dialer->detail);
      continue;
    }
    // A missing rail of a known link.
    v1::RailStatus& rail = *known->add_rails();
    rail.set_transport(v1::Transport::tcp);
    rail.set_state(v1::RailState::down);
    rail.set_remote_address(dialer->address);
    rail.set_local_interface(dialer->path.local);
    rail.set_remote_interface(dialer->path.remote);
    rail.set_reason(Reported(dialer->reason));
    rail.set_detail(dialer->detail);
  }
  for (const auto& side : side_rails_) side->Describe(status);
}

}  // namespace mlxcomm::fabric
