// Questions that go to other nodes and are waited for: one message there and back (ping),
// or a check-up of every node, by whose way there and back clocks are compared as well.
//
//   Ping, Checkup ─▶ Probe to the nodes ─▶ ProbeAnswer, node lost, or too late ─▶ one answer
//
// Sans-I/O: the caller sends, and says what time it is.
// Owner: Engine. Thread: engine. Memory: at most kAsksMax questions, each with the answers
// of at most all nodes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/control/control_port.h"
#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/node_id.h"

namespace mlxcomm {

class ProbePort {
 public:
  virtual ~ProbePort() = default;
  virtual void SendToNode(const NodeId& node, const v1::PeerMessage& message) = 0;
};

class PeerProbes {
 public:
  static constexpr std::size_t kAsksMax = 64;
  static constexpr std::uint32_t kPayloadBytesMax = 65536;
  static constexpr std::uint32_t kTimeoutMsMax = 10'000;
  static constexpr std::uint32_t kTimeoutMsDefault = 1'000;
  static constexpr std::uint64_t kCheckupWaitNs = 1'000'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Clocks {
    std::uint64_t monotonic_ns = 0;  // Read at once, not at the turn's begin: it is measured by.
    std::uint64_t unix_ns = 0;
  };
  struct Named {
    NodeId id;
    std::string name;
    std::string version;
  };

  explicit PeerProbes(ProbePort& port) : port_(port) {}

  // `link` is what the answer says of the way.
  void Ping(const Named& node, const v1::PingRequest& request, v1::LinkStatus link, Clocks now,
            std::unique_ptr<control::PingAnswer> answer);
  // `reply` holds this node's own part.
  void Checkup(const std::vector<Named>& nodes, v1::DoctorReply reply, Clocks now,
               std::unique_ptr<control::DoctorAnswer> answer);

  // False: the message breaks a bound.
  static bool IsFine(const v1::Probe& probe) { return probe.payload().size() <= kPayloadBytesMax; }
  bool OnAnswer(const NodeId& node, const v1::ProbeAnswer& answer, Clocks now);
  void OnNodeLost(const NodeId& node);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;
  // Every caller hears that the daemon is stopping.
  void Clear() { asks_.clear(); }

 private:
  struct Ask {
    std::unique_ptr<control::PingAnswer> ping;  // One of the two.
    std::unique_ptr<control::DoctorAnswer> checkup;
    std::string node;  // ping
    std::uint32_t payload_bytes = 0;
    v1::LinkStatus link;
    v1::DoctorReply reply;          // checkup
    std::map<NodeId, int> awaited;  // To the place in the reply.
    Clocks begun;
    std::uint64_t deadline_ns = 0;
  };

  static void Finish(Ask& ask, const std::string& why_not);

  ProbePort& port_;
  std::map<std::uint64_t, Ask> asks_;
  std::uint64_t next_query_ = 1;
};

}  // namespace mlxcomm
