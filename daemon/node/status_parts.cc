#include "daemon/node/status_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "daemon/discovery/topology.h"
#include "daemon/jobs/job_history.h"
#include "daemon/jobs/membership.h"
#include "proto/status_words.h"

namespace mlxcomm::node {
namespace {

using ShownNames =
    std::map<std::string, std::string>;  // Keyed by id; holds only nodes that share names.

ShownNames NamesToDistinguish(const v1::StatusReply& reply) {
  std::map<std::string, std::set<std::string>> ids;  // Keyed by name.
  for (const v1::NodeStatus& node : reply.nodes()) {
    ids[node.name()].insert(node.id());
    for (const v1::LinkStatus& link : node.links()) {
      if (!link.peer_id().empty()) ids[link.peer()].insert(link.peer_id());
    }
  }
  ShownNames shown;
  for (const auto& [name, of_name] : ids) {
    if (of_name.size() == 1) continue;
    for (const std::string& id : of_name) shown[id] = name + kIdBehind + id.substr(0, kIdDigits);
  }
  return shown;
}

void NameRanks(google::protobuf::RepeatedPtrField<v1::RankStatus>& ranks, const std::string& from,
               const std::string& to) {
  for (v1::RankStatus& rank : ranks) {
    if (rank.node() == from && rank.node_id().empty()) rank.set_node(to);
  }
}

void NameRanks(v1::JobStatus& job, const std::string& from, const std::string& to) {
  NameRanks(*job.mutable_ranks(), from, to);
  for (v1::GroupStatus& group : *job.mutable_groups()) NameRanks(*group.mutable_ranks(), from, to);
}

// Renames what the answering node itself reports, and the ranks of other nodes that wait for a job
// to form.
void Distinguish(const ShownNames& shown, v1::StatusReply& reply) {
  for (v1::JobStatus& job : *reply.mutable_jobs()) {
    for (v1::RankStatus& rank : *job.mutable_ranks()) {
      if (const auto found = shown.find(rank.node_id()); found != shown.end())
        rank.set_node(found->second);
    }
  }
  for (v1::NodeStatus& node : *reply.mutable_nodes()) {
    if (const auto found = shown.find(node.id()); found != shown.end()) {
      if (&node == &reply.nodes(0)) {
        for (v1::JobStatus& job : *reply.mutable_jobs()) NameRanks(job, node.name(), found->second);
        reply.set_node(found->second);
      }
      node.set_name(found->second);
    }
  }
}

void DistinguishPeers(const ShownNames& shown, v1::StatusReply& reply) {
  for (v1::NodeStatus& node : *reply.mutable_nodes()) {
    for (v1::LinkStatus& link : *node.mutable_links()) {
      const auto found = shown.find(link.peer_id());
      if (found != shown.end()) link.set_peer(found->second);
    }
  }
}

void MergeJob(const v1::JobStatus& reported, v1::JobStatus& job) {
  for (const v1::GroupStatus& group : reported.groups()) {
    auto& groups = *job.mutable_groups();
    const auto same = std::ranges::find(groups, group.id(), &v1::GroupStatus::id);
    if (same == groups.end()) {
      *groups.Add() = group;
      continue;
    }
    if (group.state() == "failed" && same->state() != "failed") {
      same->set_state(group.state());
      same->set_detail(group.detail());
    }
    same->mutable_ranks()->MergeFrom(group.ranks());
    same->mutable_waits()->MergeFrom(group.waits());
  }
  if (!reported.circle().empty()) job.set_circle(reported.circle());
  job.set_groups_left_out(std::max(job.groups_left_out(), reported.groups_left_out()));
  if (reported.state().empty()) return;  // Only ranks of the job's groups are there.
  const bool has_main = !job.state().empty();
  if (has_main && reported.shrinks() < job.shrinks()) return;  // It has not shrunk there yet.
  if (has_main && reported.shrinks() > job.shrinks()) {
    job.clear_state();
    job.clear_detail();
    job.clear_ranks();
    job.clear_waits();
  }
  job.set_size(reported.size());
  job.set_size_at_start(reported.size_at_start());
  job.set_shrinks(reported.shrinks());
  if (job.state().empty() || reported.state() == "failed") {
    job.set_state(reported.state());
    job.set_detail(reported.detail());
  }
  job.mutable_ranks()->MergeFrom(reported.ranks());
  job.mutable_waits()->MergeFrom(reported.waits());
}

// Each node reports that a job has ended when its own ranks have left; the last report counts.
void MergeEndedJobs(const v1::StatusAnswer& answer, v1::StatusReply& reply) {
  auto& ended = *reply.mutable_ended_jobs();
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(answer.ended_jobs_size()),
                                           jobs::JobHistory::kEndedMax);
  for (std::size_t i = 0; i < count; ++i) {
    const v1::EndedJob& reported = answer.ended_jobs(static_cast<int>(i));
    const auto same = std::ranges::find_if(ended, [&](const v1::EndedJob& other) {
      return other.group() == reported.group() && other.user() == reported.user();
    });
    if (same == ended.end()) {
      *ended.Add() = reported;
      continue;
    }
    const std::uint64_t ms_ago = std::min(same->ended_ms_ago(), reported.ended_ms_ago());
    if (same->code().empty()) *same = reported;
    same->set_ended_ms_ago(ms_ago);
  }
}

// A job that still has ranks on another node has not ended; and for one that runs again its earlier
// end does not matter.
void RemoveRunning(v1::StatusReply& reply) {
  auto& ended = *reply.mutable_ended_jobs();
  const auto runs = [&reply](const v1::EndedJob& one) {
    return std::ranges::any_of(reply.jobs(), [&](const v1::JobStatus& job) {
      return job.name() == one.name() && job.user() == one.user() && job.state() != "forming";
    });
  };
  ended.erase(std::ranges::remove_if(ended, runs).begin(), ended.end());
}

void MergeAnswer(const NodeId& node, const v1::StatusAnswer& answer, const ShownNames& shown,
                 v1::StatusReply& reply) {
  const std::string id = node.ToString();
  for (v1::NodeStatus& other : *reply.mutable_nodes()) {
    if (other.id() != id) continue;
    const std::string name = other.name();
    const std::string version = other.version();
    other = answer.node();
    other.set_id(id);  // The id that it proved: links and cables are identified by these ids.
    other.set_name(name);
    other.set_version(version);
  }
  // No node has more jobs than groups.
  const auto jobs = std::min<std::size_t>(static_cast<std::size_t>(answer.jobs_size()),
                                          jobs::Membership::kGroupsMax);
  for (std::size_t i = 0; i < jobs; ++i) {
    v1::JobStatus reported = answer.jobs(static_cast<int>(i));
    if (const auto own = shown.find(id); own != shown.end())
      NameRanks(reported, answer.node().name(), own->second);
    MergeJob(reported, JobIn(reply, {reported.user(), reported.name()}));
  }
  MergeEndedJobs(answer, reply);
}

void Sort(v1::StatusReply& reply) {
  auto& nodes = *reply.mutable_nodes();
  std::ranges::sort(nodes.begin() + 1, nodes.end(), {}, &v1::NodeStatus::name);
  std::ranges::stable_sort(*reply.mutable_ended_jobs(), {}, &v1::EndedJob::ended_ms_ago);
  auto& jobs = *reply.mutable_jobs();
  std::ranges::sort(
      jobs, {}, [](const auto& job) { return std::tuple(job.user(), job.name(), job.state()); });
  for (v1::JobStatus& job : jobs) {
    std::ranges::sort(*job.mutable_ranks(), {}, &v1::RankStatus::rank);
    auto& groups = *job.mutable_groups();
    std::ranges::sort(groups, {},
                      [](const auto& group) { return std::pair(group.name(), group.id()); });
    for (v1::GroupStatus& group : groups) {
      std::ranges::sort(*group.mutable_ranks(), {}, &v1::RankStatus::rank);
    }
  }
}

}  // namespace

v1::JobStatus& JobIn(v1::StatusReply& reply, const JobId& id, bool forms) {
  for (v1::JobStatus& job : *reply.mutable_jobs()) {
    const bool same = job.name() == id.name && job.user() == id.user;
    if (same && (job.state() == "forming") == forms) return job;
  }
  v1::JobStatus& job = *reply.add_jobs();
  job.set_name(id.name);
  job.set_user(id.user);
  if (forms) job.set_state("forming");
  return job;
}

v1::StatusReply MergeStatus(const StatusParts& parts) {
  v1::StatusReply reply = parts.own;
  const ShownNames shown = NamesToDistinguish(reply);
  Distinguish(shown, reply);
  for (const auto& [node, answer] : parts.answers) MergeAnswer(node, answer, shown, reply);
  DistinguishPeers(shown, reply);
  RemoveRunning(reply);
  Sort(reply);
  return reply;
}

const StatusParts::Merged& StatusParts::merged() const {
  if (!merged_) {
    Merged& made = merged_.emplace();
    made.status = MergeStatus(*this);
    made.topology = discovery::TopologyOf(made.status);
    made.status.set_shape(made.topology.shape());
    *made.status.mutable_ring() = made.topology.ring();
  }
  return *merged_;
}

}  // namespace mlxcomm::node
