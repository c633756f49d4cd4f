#include "daemon/node/own_status.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/node/status_parts.h"

namespace mlxcomm::node {
namespace {

using Waits = google::protobuf::RepeatedPtrField<v1::WaitStatus>;

void WriteRank(const OwnState& own, std::uint64_t group, collective::RankActivity& activity,
               v1::RankStatus& rank, Waits& waits) {
  rank = std::move(activity.status);
  if (const intake::SessionId session = own.jobs.membership().HolderOf(group, rank.rank());
      session != 0) {
    rank.set_program(own.jobs.ProgramOf(session));
    const intake::CopiedResults copied = own.processes.ResultsCopiedBy(session);
    rank.set_copied_results(copied.results);
    rank.set_copied_result_bytes(copied.bytes);
    rank.set_copied_result_ns(copied.nanoseconds);
  }
  if (activity.awaited.empty()) return;
  v1::WaitStatus& wait = *waits.Add();
  wait.add_waiting(rank.rank());
  wait.mutable_awaited()->Add(activity.awaited.begin(), activity.awaited.end());
  wait.set_operation(rank.operation());
  wait.set_age_ms(rank.operation_age_ms());
}

// `told` is the job itself, or one of its groups, for which only busy ranks are described.
template <typename Reported>
void WriteGroup(const OwnState& own, const collective::Group& group, Reported& reported,
                v1::JobStatus& job) {
  constexpr bool kIsJob = std::is_same_v<Reported, v1::JobStatus>;
  reported.set_size(group.layout().rank_count());
  reported.set_state(StateOf(group));
  if (group.failed()) reported.set_detail(group.failure().message);
  for (collective::RankActivity& activity : group.Activity(own.now_ns)) {
    if (!activity.gone && (kIsJob || activity.busy))
      WriteRank(own, group.id(), activity, *reported.add_ranks(), *reported.mutable_waits());
    if (!activity.circle.empty()) job.set_circle(activity.circle);
  }
  v1::WaitStatus shrinking;
  if (own.jobs.shrinking().Describe(group.id(), own.now_ns, shrinking))
    *reported.add_waits() = std::move(shrinking);
}

// The size is one process's claim, so if thousands of ranks are missing only some are named.
std::string DescribeMissing(const v1::JobStatus& job) {
  constexpr std::size_t kNamed = 16;
  std::vector<bool> here(job.size());
  for (const v1::RankStatus& rank : job.ranks()) {
    if (rank.rank() < here.size()) here[rank.rank()] = true;
  }
  std::string text;
  std::size_t missing = 0;
  for (std::size_t rank = 0; rank < here.size(); ++rank) {
    if (here[rank]) continue;
    if (missing++ < kNamed) absl::StrAppend(&text, text.empty() ? "" : ", ", rank);
  }
  if (missing == 0) return {};
  if (missing > kNamed) absl::StrAppend(&text, " and ", missing - kNamed, " more");
  return absl::StrCat(missing == 1 ? "waits for rank " : "waits for ranks ", text);
}

// Adds to the port's facts about the interfaces.
void WriteDiscovery(const discovery::Discovery& discovery, std::uint64_t now_ns,
                    v1::DiscoveryStatus& status) {
  for (v1::DiscoveryInterface& reported : *status.mutable_interfaces()) {
    if (const std::uint64_t heard_ns = discovery.ForeignNs(reported.name()); heard_ns != 0)
      reported.set_foreign_ms_ago(MsBetween(heard_ns, now_ns));
    if (reported.reason() != v1::DiscoveryReason::none) continue;
    const discovery::InterfaceFault fault = discovery.FaultOf(reported.name(), now_ns);
    reported.set_reason(fault.reason);
    reported.set_detail(fault.text);
  }
  for (const discovery::Discovery::Neighbour* const one : discovery.Neighbours()) {
    v1::DiscoveredNeighbour& reported = *status.add_neighbours();
    reported.set_id(one->id.ToString());
    reported.set_name(one->name);
    reported.set_local_interface(one->local_interface);
    reported.set_remote_interface(one->remote_interface);
    reported.set_address(discovery::AddressText(one->address, one->local_interface, one->port));
    reported.set_heard_ms_ago(MsBetween(one->heard_ns, now_ns));
    reported.set_state(one->IsLost(std::max(now_ns, one->heard_ns)) ? "lost" : "heard");
  }
  std::ranges::sort(*status.mutable_neighbours(), {}, &v1::DiscoveredNeighbour::name);
  status.MergeFrom(discovery.counters());
}

}  // namespace

std::uint64_t MsBetween(std::uint64_t then_ns, std::uint64_t now_ns) {
  return (now_ns - std::min(now_ns, then_ns)) / 1'000'000;
}

std::map<JobId, JobGroups> GroupsByJob(const OwnState& own) {
  std::map<JobId, JobGroups> jobs;
  own.collectives.ForEach([&](const collective::Group& group) {
    const jobs::GroupOrigin& origin = *own.jobs.membership().OriginOf(group.id());
    JobGroups& of_job = jobs[origin.job];
    of_job.all.push_back(&group);
    const auto shrinks = [&] { return own.jobs.membership().OriginOf(of_job.main->id())->shrinks; };
    if (origin.is_main && (of_job.main == nullptr || origin.shrinks > shrinks()))
      of_job.main = &group;
  });
  return jobs;
}

const char* StateOf(const collective::Group& group) {
  return group.failed() ? "failed" : "running";
}

JobsWriter::JobsWriter(const OwnState& own, const StatusViewers& viewers, v1::StatusReply& reply) {
  std::size_t listed = 0;
  for (const auto& [id, of_job] : GroupsByJob(own)) {
    const int place = reply.jobs_size();
    v1::JobStatus& job = *reply.add_jobs();
    job.set_name(id.name);
    job.set_user(id.user);
    if (!viewers.all && !viewers.users.contains(id.user)) continue;
    for (const collective::Group* const group : of_job.all) {
      const bool is_main = group == of_job.main;
      if (is_main || listed++ < kGroupsListedMax) {
        groups_.push_back({group->id(), place, is_main});
      } else {
        job.set_groups_left_out(job.groups_left_out() + 1);
      }
    }
  }
}

bool JobsWriter::WriteSome(const OwnState& own, v1::StatusReply& reply) {
  const std::size_t end = std::min(groups_.size(), written_ + kGroupsASlice);
  for (; written_ < end; ++written_) {
    const Listed& one = groups_[written_];
    const collective::Group* const group = own.collectives.Find(one.group);
    if (group == nullptr) continue;
    v1::JobStatus& job = *reply.mutable_jobs(one.job);
    if (one.is_main) {
      const jobs::GroupOrigin& origin = *own.jobs.membership().OriginOf(one.group);
      job.set_size_at_start(origin.size_at_start);
      job.set_shrinks(origin.shrinks);
      WriteGroup(own, *group, job, job);
      continue;
    }
    v1::GroupStatus& row = *job.add_groups();
    row.set_id(group->id());
    row.set_name(group->name());
    WriteGroup(own, *group, row, job);
  }
  return written_ == groups_.size();
}

void WriteForming(const OwnState& own, v1::StatusReply& reply) {
  v1::JobStatus* job = nullptr;  // They are ordered by job.
  for (const jobs::Rendezvous::Waiting& waiting : own.jobs.rendezvous().AllWaiting()) {
    const JobId id = jobs::JobOf(waiting.claim);
    if (job == nullptr || job->name() != id.name || job->user() != id.user) {
      job = &JobIn(reply, id, /*forms=*/true);
    }
    job->set_size(waiting.claim.size());
    v1::RankStatus& rank = *job->add_ranks();
    rank.set_rank(waiting.claim.rank());
    rank.set_node(own.jobs.rendezvous().NodeName(waiting.node));
    rank.set_node_id(waiting.node.ToString());
    rank.set_pid(waiting.claim.pid());
    rank.set_program(waiting.claim.program());
    if (waiting.timeout_ns != 0)
      rank.set_operation_age_ms(MsBetween(waiting.deadline_ns - waiting.timeout_ns, own.now_ns));
  }
  for (v1::JobStatus& forming : *reply.mutable_jobs()) {
    if (forming.state() != "forming") continue;
    forming.set_detail(DescribeMissing(forming));
    forming.set_other_half(
        own.jobs.rendezvous().DescribeOtherHalf({forming.user(), forming.name()}));
  }
}

void WriteLinks(const OwnState& own, v1::NodeStatus& node) {
  own.port.DescribeLinks(node);
  std::set<std::tuple<std::string, std::string, std::string>> found;
  if (own.discovery) {
    for (const discovery::Discovery::Neighbour* const one : own.discovery->Neighbours())
      found.emplace(one->id.ToString(), one->local_interface, one->remote_interface);
  }
  for (v1::LinkStatus& link : *node.mutable_links()) {
    for (v1::RailStatus& rail : *link.mutable_rails()) {
      if (rail.local_interface().empty()) continue;
      const bool is_found =
          found.contains({link.peer_id(), rail.local_interface(), rail.remote_interface()});
      rail.set_origin(is_found ? "discovered" : "configured");
    }
  }
}

void WriteNode(const OwnState& own, v1::NodeStatus& node) {
  const link::NodeIdentity& self = own.options.fabric.self;
  node.set_name(self.name);
  node.set_id(self.id.ToString());
  node.set_version(self.software_version);
  node.set_uptime_ms(MsBetween(own.started_ns, own.now_ns));
  node.set_answered(true);
  node.set_state(own.jobs.draining() ? "draining" : "up");
  if (own.jobs.draining()) {
    // Waits for every group, including failed ones that their ranks have not closed yet.
    node.mutable_drain()->set_jobs(static_cast<std::uint32_t>(GroupsByJob(own).size()));
    node.mutable_drain()->set_left_ms(MsBetween(own.now_ns, own.jobs.drains_until_ns()));
  }
  const std::vector<std::string> users = own.port.Describe(node);
  constexpr std::size_t kGroupsMax = jobs::Membership::kGroupsMax;
  node.mutable_use()->set_groups(own.jobs.membership().group_count());
  node.mutable_use()->set_groups_max(kGroupsMax);
  for (std::size_t i = 0; i < users.size(); ++i) {
    v1::UseStatus& user = *node.mutable_users(static_cast<int>(i));
    user.set_groups(own.jobs.membership().group_count(users[i]));
    // Users without a name share one limit.
    user.set_groups_max(users[i].empty() ? kGroupsMax
                                         : own.jobs.membership().groups_per_user_max());
  }
  if (own.discovery) WriteDiscovery(*own.discovery, own.now_ns, *node.mutable_discovery());
  WriteLinks(own, node);
}

}  // namespace mlxcomm::node
