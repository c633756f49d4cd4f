// Questions to other nodes whose answers are awaited: one message there and back (ping), or a
// check-up of every node, whose round trip also serves to compare clocks.
//
//   Ping, Checkup ─▶ Probe to the nodes ─▶ ProbeAnswer, node lost, or too late ─▶ one answer
//
// Sans-I/O: the caller sends, and passes the time.
// Owner: Node. Thread: the node's. Memory: at most kAsksMax questions, each with the answers
// of at most all nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/link/fabric_listener.h"
#include "daemon/node/answer.h"
#include "daemon/node/node_port.h"
#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/node_id.h"

namespace mlxcomm::node {

class PeerProbes {
 public:
  static constexpr std::size_t kAsksMax = 64;
  static constexpr std::uint32_t kPayloadBytesMax = 65536;
  static constexpr std::uint32_t kTimeoutMsMax = 10'000;
  static constexpr std::uint32_t kTimeoutMsDefault = 1'000;
  static constexpr std::uint64_t kCheckupWaitNs = 1'000'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  using Clocks = NodePort::Clocks;

  using Send = std::function<void(const NodeId& node, const v1::PeerMessage& message)>;

  explicit PeerProbes(Send send) : send_(std::move(send)) {}

  // The answer copies `link`, which describes the route.
  void Ping(const link::NodeIdentity& node, const v1::PingRequest& request, v1::LinkStatus link,
            Clocks now, std::unique_ptr<PingAnswer> answer);
  // `reply` holds this node's own part. All answers get the same.
  void Checkup(const std::vector<link::NodeIdentity>& nodes, v1::DoctorReply reply, Clocks now,
               std::vector<std::unique_ptr<DoctorAnswer>> answers);

  // False if the message breaks a bound.
  static bool IsFine(const v1::Probe& probe) { return probe.payload().size() <= kPayloadBytesMax; }
  bool OnAnswer(const NodeId& node, const v1::ProbeAnswer& answer, Clocks now);
  void OnNodeLost(const NodeId& node);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;
  // Every caller is answered that the daemon is stopping.
  void Clear() { asks_.clear(); }

 private:
  struct Ask {
    std::unique_ptr<PingAnswer> ping;  // Set for a ping only.
    std::vector<std::unique_ptr<DoctorAnswer>> checkups;
    std::string node;  // ping
    std::uint32_t payload_bytes = 0;
    v1::LinkStatus link;
    v1::DoctorReply reply;          // checkup
    std::map<NodeId, int> awaited;  // Maps to the index in the reply.
    Clocks begun;
    std::uint64_t deadline_ns = 0;
  };

  static void Finish(Ask& ask, const std::string& why_not);

  const Send send_;
  std::map<std::uint64_t, Ask> asks_;
  std::uint64_t next_query_ = 1;
};

}  // namespace mlxcomm::node
