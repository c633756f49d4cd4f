// Records what a link, or the fabric, reports to its listener.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/link/link.h"

namespace mlxcomm::link {

struct LinkEvents : FabricListener {
  void OnNodeUp(const NodeIdentity& node) override { up.push_back(node); }
  void OnNodeLost(const NodeId&, const absl::Status& why) override {
    lost.push_back(std::string(why.message()));
  }
  void OnControl(const NodeId&, std::span<const std::byte> message) override {
    control.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
  }
  void OnEager(const NodeId&, const wire::FrameHeader&, std::span<const std::byte>) override {}
  void OnGrant(const NodeId&, const wire::FrameHeader& header) override {
    grants.push_back(header.number);
  }
  void OnCredit(const NodeId&, const wire::FrameHeader&) override {}
  void OnDataReceived(const NodeId&, const wire::FrameHeader& header) override {
    data.push_back(header.offset);
    data_bytes += header.payload_bytes;
  }
  void OnDataReleased(const NodeId&, std::uint64_t cookie) override { released.push_back(cookie); }
  void OnWithdrawn(const NodeId&, const OperationKey& key) override {
    withdrawn.push_back(key.number);
  }

  std::vector<NodeIdentity> up;
  std::vector<std::string> lost;
  std::vector<std::string> control;
  std::vector<std::uint64_t> grants;
  std::vector<std::uint64_t> data;
  std::vector<std::uint64_t> released;
  std::vector<std::uint64_t> withdrawn;
  std::uint64_t data_bytes = 0;
};

// The introduction that the link would send now.
inline wire::Introduction IntroductionOf(const Link& link) {
  const Link::Standing standing = link.standing();
  wire::Introduction introduction{};
  introduction.session = standing.session;
  introduction.known_peer_session = standing.known_peer_session;
  introduction.next_expected = standing.next_expected;
  introduction.incarnation = 1;
  return introduction;
}

}  // namespace mlxcomm::link
