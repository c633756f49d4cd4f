// Collects what the state machines of this folder ask for. An event is a call, which appends
// requests to the outbox; Jobs carries them out in order once the call has returned.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/failure.h"
#include "proto/types/job_id.h"
#include "proto/types/node_id.h"

namespace mlxcomm::jobs {

struct FormedMember {
  NodeId node;
  std::string node_name;
  std::uint64_t pid = 0;
  std::uint64_t session = 0;                      // 0 if the rank is remote, or has left.
  std::uint64_t deadline_ns = ~std::uint64_t{0};  // Local ranks: when the rank gives up.
  std::uint64_t timeout_ns = 0;
};

struct SendTo {
  NodeId node;
  v1::PeerMessage message;
};
struct SendToAll {
  v1::PeerMessage message;
};
// Rendezvous: all ranks of the job are known, and at least one of them is local.
struct WorldFormed {
  JobId job;
  std::uint64_t group = 0;
  std::vector<FormedMember> members;  // Indexed by rank.
  v1::LinkCosts costs;
};
struct AttachRefused {
  std::uint64_t session = 0;
  Failure failure;
};
// FormingWorlds: the group's local processes may begin.
struct WorldReady {
  std::uint64_t group = 0;
};
// FormingWorlds: the process has waited until its deadline, and leaves the group.
struct RankLate {
  std::uint64_t session = 0;
  Failure failure;
};
// The group fails on all nodes.
struct GroupFailed {
  std::uint64_t group = 0;
  Failure failure;
};
// Each Shrink::Ask ends with one of these two, unless it was withdrawn.
struct ShrinkReady {
  std::uint64_t session = 0;
  std::uint64_t group = 0;
  std::uint64_t new_group = 0;
};
struct ShrinkRefused {
  std::uint64_t session = 0;
  std::uint64_t group = 0;
  Failure failure;
};
// Shrink: the session will never use its place in the new group.
struct PlaceGivenUp {
  std::uint64_t session = 0;
  std::uint64_t new_group = 0;
};

using Request = std::variant<SendTo, SendToAll, WorldFormed, AttachRefused, WorldReady, RankLate,
                             GroupFailed, ShrinkReady, ShrinkRefused, PlaceGivenUp>;
using Outbox = std::vector<Request>;

}  // namespace mlxcomm::jobs
