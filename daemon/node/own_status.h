// A node's own part of a status: pure functions of the node's state.
//
// Thread: the node's. Memory: the reply; at most kGroupsListedMax groups besides the jobs' own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/collective/collectives.h"
#include "daemon/discovery/discovery.h"
#include "daemon/intake/processes.h"
#include "daemon/jobs/jobs.h"
#include "daemon/node/node_port.h"
#include "daemon/node/options.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::node {

struct OwnState {
  const NodeOptions& options;
  const collective::Collectives& collectives;
  const jobs::Jobs& jobs;
  const intake::Processes& processes;
  const NodePort& port;
  const std::optional<discovery::Discovery>& discovery;
  std::uint64_t started_ns = 0;
  std::uint64_t now_ns = 0;
};

inline constexpr std::size_t kGroupsListedMax = 64;

// A job can have two main groups here: the failed one until it is closed, and the one to which it
// has shrunk, which represents the job.
struct JobGroups {
  std::vector<const collective::Group*> all;
  const collective::Group* main = nullptr;  // None if only groups split from it are here.
};
std::map<JobId, JobGroups> GroupsByJob(const OwnState& own);
const char* StateOf(const collective::Group& group);

// Decides whose jobs are described. Other jobs are only named, so that they can be counted.
struct StatusViewers {
  bool all = false;
  std::set<std::string> users = {};
};

// Writes a node's jobs in slices, so that thousands of groups hold up no payload. A group that no
// longer exists is left out.
class JobsWriter {
 public:
  static constexpr std::size_t kGroupsASlice = 64;
  // Adds the jobs' names to the reply.
  JobsWriter(const OwnState& own, const StatusViewers& viewers, v1::StatusReply& reply);
  // The next slice. True if it was the last one.
  bool WriteSome(const OwnState& own, v1::StatusReply& reply);

 private:
  struct Listed {
    std::uint64_t group = 0;
    int job = 0;  // Indexes the reply's jobs.
    bool is_main = false;
  };
  std::vector<Listed> groups_;
  std::size_t written_ = 0;
};

// 0 if `then_ns` is later.
std::uint64_t MsBetween(std::uint64_t then_ns, std::uint64_t now_ns);
void WriteNode(const OwnState& own, v1::NodeStatus& node);
// Jobs of all nodes whose ranks are not complete yet.
void WriteForming(const OwnState& own, v1::StatusReply& reply);
void WriteLinks(const OwnState& own, v1::NodeStatus& node);

}  // namespace mlxcomm::node
