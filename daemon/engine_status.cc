// The half of Engine that tells what it sees: its own part at once, the peers' parts
// when they answer or kStatusWaitNs is over.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "daemon/cluster/topology_reply.h"
#include "daemon/control/visibility.h"
#include "daemon/engine.h"
#include "daemon/platform/machine.h"
#include "proto/status_words.h"

namespace mlxcomm {

void Engine::Status(const intake::User& viewer, std::unique_ptr<control::StatusAnswer> answer) {
  Ask(std::move(answer), [this, viewer](std::unique_ptr<control::StatusAnswer> held) {
    BeginStatus(viewer, std::move(held));
  });
}

void Engine::MeasureLinks(std::unique_ptr<control::CostsAnswer> answer) {
  Ask(std::move(answer),
      [this](std::unique_ptr<control::CostsAnswer> held) { held->Succeed(OwnCosts()); });
}

void Engine::Metrics(std::unique_ptr<control::MetricsAnswer> answer) {
  Ask(std::move(answer), [this](std::unique_ptr<control::MetricsAnswer> held) {
    control::EngineMetrics metrics;
    v1::StatusReply own;
    FillOwnPart(metrics.node, &own);
    for (const v1::JobStatus& job : own.jobs()) {
      if (!job.state().empty()) ++metrics.jobs[job.state()];
    }
    metrics.wakeups = wakeups_;
    metrics.violations = violations_;
    held->Succeed(metrics);
  });
}

void Engine::BeginStatus(const intake::User& viewer,
                         std::unique_ptr<control::StatusAnswer> answer) {
  const std::uint64_t query = next_query_++;
  StatusCall& call = status_calls_[query];
  call.answer = std::move(answer);
  call.viewer = viewer;
  call.deadline_ns = now_ns_ + kStatusWaitNs;
  call.reply.set_node(options_.self.name);
  call.reply.set_cluster(options_.cluster);
  FillOwnPart(*call.reply.add_nodes(), &call.reply);
  for (const auto& [id, node] : nodes_) {
    v1::NodeStatus& other = *call.reply.add_nodes();
    other.set_name(node.name);
    other.set_id(id.ToString());
    other.set_version(node.software_version);
    other.set_state("up");
    call.awaited.push_back(id);
    v1::PeerMessage message;
    message.mutable_status_query()->set_query(query);
    SendToNode(id, message);
  }
  if (call.awaited.empty()) FinishStatus(query);
}

void Engine::FillOwnPart(v1::NodeStatus& node, v1::StatusReply* jobs_of) const {
  node.set_name(options_.self.name);
  node.set_id(options_.self.id.ToString());
  node.set_version(options_.self.software_version);
  node.set_pid(static_cast<std::uint64_t>(::getpid()));
  node.set_uptime_ms((now_ns_ - started_ns_) / 1'000'000);
  node.set_answered(true);
  node.set_state(draining_ ? "draining" : "up");
  const intake::IntakeCounters counters = intake_->counters();
  node.set_clients(counters.clients);
  node.set_clients_refused(counters.refused);
  node.set_sessions_ended_for_garbage(counters.ended_for_garbage);
  node.set_strangers_refused(fabric_->strangers_refused());
  for (const std::string& id : fabric_->key_ids()) node.add_cluster_keys(id);
  node.set_arena_bytes(counters.arena_bytes);
  node.set_memory_bytes(platform::OwnMemoryBytes());
  const Workers::Traffic traffic = workers_->traffic();
  node.set_combined_bytes_read(traffic.bytes_read);
  node.set_combined_bytes_written(traffic.bytes_written);
  AddUse(node);
  if (discovery_ != nullptr) discovery_->Describe(*node.mutable_discovery());
  AddLinks(node);
  AddRdma(node);
  AddGroups(*jobs_of);
  AddWaiting(*jobs_of);
}

void Engine::AddUse(v1::NodeStatus& node) const {
  const intake::UseOfLimits use = intake_->use();
  const auto write = [](const intake::Amounts& used, const intake::Amounts& most,
                        v1::UseStatus& told) {
    told.set_clients(used.clients);
    told.set_clients_max(most.clients);
    told.set_arena_bytes(used.arena_bytes);
    told.set_arena_bytes_max(most.arena_bytes);
    told.set_operations(used.operations);
    told.set_operations_max(most.operations);
  };
  write(use.used, use.all, *node.mutable_use());
  node.mutable_use()->set_groups(membership_.group_count());
  node.mutable_use()->set_groups_max(collective::Membership::kGroupsMax);
  for (const intake::UserUse& user : use.users) {
    v1::UseStatus& told = *node.add_users();
    told.set_user(user.name.empty() ? absl::StrCat("#", user.uid) : user.name);
    write(user.used, use.per_user, told);
    told.set_groups(membership_.group_count(user.name));
    told.set_groups_max(user.name.empty() ? collective::Membership::kGroupsMax
                                          : membership_.groups_per_user_max());
  }
}

std::string Engine::OriginOf(const NodeId& peer, const fabric::RailSnapshot& rail) const {
  if (rail.local_interface.empty()) return {};
  const bool found =
      discovery_ != nullptr && discovery_->Knows(peer, rail.local_interface, rail.remote_interface);
  return found ? "discovered" : "configured";
}

void Engine::AddLinks(v1::NodeStatus& node) const {
  for (const fabric::LinkSnapshot& snapshot : fabric_->Snapshot()) {
    v1::LinkStatus& link = *node.add_links();
    link.set_peer(snapshot.peer);
    if (snapshot.peer_id != NodeId{}) link.set_peer_id(snapshot.peer_id.ToString());
    link.set_state(Told(snapshot.state));
    link.set_reason(Told(snapshot.reason));
    link.set_detail(snapshot.detail);
    for (const fabric::RailSnapshot& rail : snapshot.rails) {
      v1::RailStatus& told = *link.add_rails();
      told.set_transport(Told(rail.transport));
      told.set_local_address(rail.local_address);
      told.set_remote_address(rail.remote_address);
      told.set_state(rail.up ? v1::RailState::up : v1::RailState::down);
      told.set_reason(Told(rail.reason));
      told.set_peers_reason(rail.peers_reason);
      told.set_sent_bytes(rail.sent_bytes);
      told.set_received_bytes(rail.received_bytes);
      told.set_copied_bytes(rail.copied_bytes);
      told.set_direct_bytes(rail.direct_bytes);
      told.set_arena_regions(rail.arena_regions);
      told.set_arena_regions_max(rail.arena_regions_max);
      told.set_arena_region_bytes(rail.arena_region_bytes);
      told.set_sent_bytes_per_second(rail.sent_bytes_per_second);
      told.set_received_bytes_per_second(rail.received_bytes_per_second);
      told.set_round_trip_ns(rail.round_trip_ns);
      told.set_round_trip_ns_min(rail.round_trip_ns_min);
      told.set_local_interface(rail.local_interface);
      told.set_remote_interface(rail.remote_interface);
      told.set_delivery_bytes_per_second(rail.delivery_bytes_per_second);
      told.set_delivery_bytes_per_second_best(rail.delivery_bytes_per_second_best);
      told.set_detail(rail.detail);
      told.set_origin(OriginOf(snapshot.peer_id, rail));
      told.set_security(rail.security);
      if (!rail.security.empty()) told.set_key_id(KeyIdText(rail.key));
      if (rail.transport != Transport::kRdma) continue;
      v1::RdmaRailStatus& rdma = *told.mutable_rdma();
      rdma.set_device(rail.device);
      rdma.set_service(rail.service);
      rdma.set_lost_messages(rail.lost_messages);
      rdma.set_reason(std::string(RdmaWord(told.reason(), rail.peers_reason)));
    }
  }
}

void Engine::AddRdma(v1::NodeStatus& node) const {
  const fabric::RdmaSnapshot snapshot = fabric_->Rdma();
  if (!snapshot.enabled) return;
  v1::RdmaStatus& told = *node.mutable_rdma();
  told.set_state(snapshot.state);
  told.set_detail(snapshot.detail);
  told.set_reason(Told(snapshot.reason));
  told.set_asked_for(snapshot.asked_for);
  // No Mac has so many; and what is said has to fit into a message.
  constexpr int kDevicesTold = 16;
  constexpr int kGidsTold = 8;
  for (const fabric::RdmaDeviceSnapshot& device : snapshot.devices) {
    if (told.devices_size() == kDevicesTold) break;
    v1::RdmaDevice& one = *told.add_devices();
    one.set_name(device.name);
    one.set_active(device.active);
    one.set_state(device.state);
    if (!device.opened) one.set_reason(v1::LinkReason::rdma_not_opened);
    for (const std::string& gid : device.gids) {
      if (one.gids_size() < kGidsTold) one.add_gids(gid);
    }
    one.set_queue_pairs(device.queue_pairs);
    one.set_queue_pairs_max(device.queue_pairs_max);
    one.set_regions(device.regions);
    one.set_regions_max(device.regions_max);
    one.set_busy_ms(device.busy_ns / 1'000'000);
    one.set_driver_pid(static_cast<std::uint32_t>(device.driver_pid));
    one.set_drivers_ended(device.drivers_ended);
    one.set_last_end(device.last_end);
  }
}

// Ranks that wait for a job to form may do so while the last one of that name still runs or
// has failed: the two have nothing in common.
v1::JobStatus& Engine::JobIn(v1::StatusReply& reply, const JobId& id, bool forms) const {
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

// One job can have two main groups here: the one that failed, until it is closed, and
// the one it has shrunk to, which stands for the job.
void Engine::AddGroups(v1::StatusReply& reply) const {
  std::map<JobId, std::uint32_t> shrinks;
  collectives_.ForEach([&](const collective::Group& group) {
    const collective::GroupOrigin& origin = *membership_.OriginOf(group.id());
    std::uint32_t& most = shrinks[origin.job];
    if (origin.is_main) most = std::max(most, origin.shrinks);
  });
  std::size_t listed = 0;
  collectives_.ForEach([&](const collective::Group& group) {
    const collective::GroupOrigin& origin = *membership_.OriginOf(group.id());
    v1::JobStatus& job = JobIn(reply, origin.job);
    if (origin.is_main && origin.shrinks == shrinks.at(origin.job)) {
      AddMainGroup(group, origin, job);
    } else if (listed++ < kGroupsListedMax) {
      AddGroup(group, *job.add_groups());
    } else {
      job.set_groups_left_out(job.groups_left_out() + 1);
    }
  });
}

void Engine::AddMainGroup(const collective::Group& group, const collective::GroupOrigin& origin,
                          v1::JobStatus& job) const {
  job.set_size(group.layout().rank_count());
  job.set_size_at_start(origin.size_at_start);
  job.set_shrinks(origin.shrinks);
  job.set_state(group.failed() ? "failed" : "running");
  if (group.failed()) job.set_detail(group.failure().message);
  for (const collective::RankActivity& activity : group.Activity()) {
    if (!activity.gone) AddRank(group, activity, *job.add_ranks(), *job.mutable_waits());
  }
  AddShrinking(group.id(), *job.mutable_waits());
}

void Engine::AddGroup(const collective::Group& group, v1::GroupStatus& told) const {
  told.set_id(group.id());
  told.set_name(group.name());
  told.set_size(group.layout().rank_count());
  told.set_state(group.failed() ? "failed" : "running");
  if (group.failed()) told.set_detail(group.failure().message);
  for (const collective::RankActivity& activity : group.Activity()) {
    if (!activity.busy || activity.gone) continue;
    AddRank(group, activity, *told.add_ranks(), *told.mutable_waits());
  }
  AddShrinking(group.id(), *told.mutable_waits());
}

void Engine::AddRank(const collective::Group& group, const collective::RankActivity& activity,
                     v1::RankStatus& rank, Waits& waits) const {
  const collective::Member& member = group.layout().member(activity.rank);
  rank.set_rank(activity.rank);
  rank.set_node(member.node_name);
  rank.set_pid(member.pid);
  const auto session = sessions_.find(membership_.HolderOf(group.id(), activity.rank));
  if (session != sessions_.end()) {
    rank.set_program(session->second.program);
    const intake::CopiedResults copied = intake_->ResultsCopiedBy(session->first);
    rank.set_copied_results(copied.results);
    rank.set_copied_result_bytes(copied.bytes);
    rank.set_copied_result_ns(copied.nanoseconds);
  }
  rank.set_operations_done(activity.operations_done);
  if (!activity.busy) return;
  const std::string operation =
      absl::StrCat(activity.call, ", ", collective::DescribeKey(activity.key));
  const std::uint64_t age_ms = (now_ns_ - activity.submitted_ns) / 1'000'000;
  rank.set_operation(operation);
  rank.set_operation_age_ms(age_ms);
  if (activity.awaited.empty()) return;
  v1::WaitStatus& wait = *waits.Add();
  wait.add_waiting(activity.rank);
  for (const std::uint32_t awaited : activity.awaited) wait.add_awaited(awaited);
  wait.set_operation(operation);
  wait.set_age_ms(age_ms);
}

void Engine::AddShrinking(std::uint64_t group, Waits& waits) const {
  std::vector<std::uint32_t> waiting;
  std::vector<std::uint32_t> awaited;
  std::uint64_t since_ns = now_ns_;
  if (!shrink_.Waiting(group, waiting, awaited, since_ns) || awaited.empty()) return;
  v1::WaitStatus& wait = *waits.Add();
  wait.mutable_waiting()->Add(waiting.begin(), waiting.end());
  wait.mutable_awaited()->Add(awaited.begin(), awaited.end());
  wait.set_operation("shrink");
  wait.set_age_ms((now_ns_ - since_ns) / 1'000'000);
}

void Engine::AddWaiting(v1::StatusReply& reply) const {
  v1::JobStatus* job = nullptr;  // They come job by job.
  for (const cluster::Rendezvous::Waiting& waiting : rendezvous_.AllWaiting()) {
    const JobId& id = waiting.claim.job;
    if (job == nullptr || job->name() != id.name || job->user() != id.user) {
      job = &JobIn(reply, id, /*forms=*/true);
    }
    job->set_size(waiting.claim.size);
    v1::RankStatus& rank = *job->add_ranks();
    rank.set_rank(waiting.claim.rank);
    rank.set_node(rendezvous_.NodeName(waiting.node));
    rank.set_pid(waiting.claim.pid);
    rank.set_program(waiting.claim.program);
  }
  for (v1::JobStatus& forming : *reply.mutable_jobs()) {
    if (forming.state() == "forming") forming.set_detail(DescribeMissing(forming));
  }
}

// The size is what one process says, so of thousands that are missing only some are named.
std::string Engine::DescribeMissing(const v1::JobStatus& job) {
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

void Engine::OnStatusQuery(const NodeId& node, std::uint64_t query) {
  v1::PeerMessage message;
  v1::StatusAnswer& answer = *message.mutable_status_answer();
  answer.set_query(query);
  v1::StatusReply own;
  FillOwnPart(*answer.mutable_node(), &own);
  WriteOlderWords(*answer.mutable_node());
  for (const v1::JobStatus& job : own.jobs()) {
    if (job.state() != "forming") *answer.add_jobs() = job;
  }
  // A part that is too large to send would look like a node that does not answer.
  if (message.ByteSizeLong() > wire::kControlBytesMax) {
    for (v1::JobStatus& job : *answer.mutable_jobs()) {
      job.set_groups_left_out(job.groups_left_out() +
                              static_cast<std::uint32_t>(job.groups_size()));
      job.clear_groups();
    }
  }
  SendToNode(node, message);
}

void Engine::OnStatusAnswer(const NodeId& node, const v1::StatusAnswer& answer) {
  const auto found = status_calls_.find(answer.query());
  if (found == status_calls_.end()) return;
  StatusCall& call = found->second;
  if (std::find(call.awaited.begin(), call.awaited.end(), node) == call.awaited.end()) return;
  std::erase(call.awaited, node);
  const std::string id = node.ToString();
  for (v1::NodeStatus& other : *call.reply.mutable_nodes()) {
    if (other.id() != id) continue;
    const std::string name = other.name();
    const std::string version = other.version();
    other = answer.node();
    ReadOlderWords(other);
    other.set_id(id);  // As it has proved it: links and cables are told by these.
    other.set_name(name);
    other.set_version(version);
  }
  // No node has more jobs than groups.
  const auto jobs = std::min<std::size_t>(static_cast<std::size_t>(answer.jobs_size()),
                                          collective::Membership::kGroupsMax);
  for (std::size_t i = 0; i < jobs; ++i) {
    const v1::JobStatus& told = answer.jobs(static_cast<int>(i));
    MergeJob(told, JobIn(call.reply, {told.user(), told.name()}));
  }
  if (call.awaited.empty()) FinishStatus(answer.query());
}

// What another node's ranks do in the same job.
void Engine::MergeJob(const v1::JobStatus& told, v1::JobStatus& job) const {
  for (const v1::GroupStatus& group : told.groups()) {
    auto& groups = *job.mutable_groups();
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& other) { return other.id() == group.id(); });
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
  job.set_groups_left_out(std::max(job.groups_left_out(), told.groups_left_out()));
  if (told.state().empty()) return;  // None of the job's ranks is there, only its groups'.
  const bool has_main = !job.state().empty();
  if (has_main && told.shrinks() < job.shrinks()) return;  // It has not shrunk there yet.
  if (has_main && told.shrinks() > job.shrinks()) {
    job.clear_state();
    job.clear_detail();
    job.clear_ranks();
    job.clear_waits();
  }
  job.set_size(told.size());
  job.set_size_at_start(told.size_at_start());
  job.set_shrinks(told.shrinks());
  if (job.state().empty() || told.state() == "failed") {
    job.set_state(told.state());
    job.set_detail(told.detail());
  }
  job.mutable_ranks()->MergeFrom(told.ranks());
  job.mutable_waits()->MergeFrom(told.waits());
}

void Engine::FinishLateStatus() {
  std::vector<std::uint64_t> late;
  for (const auto& [query, call] : status_calls_) {
    if (call.deadline_ns <= now_ns_) late.push_back(query);
  }
  for (const std::uint64_t query : late) FinishStatus(query);
}

void Engine::FinishStatus(std::uint64_t query) {
  const auto found = status_calls_.find(query);
  StatusCall call = std::move(found->second);
  status_calls_.erase(found);
  auto& nodes = *call.reply.mutable_nodes();
  std::sort(nodes.begin() + 1, nodes.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  auto& jobs = *call.reply.mutable_jobs();
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.user(), a.name(), a.state()) < std::tuple(b.user(), b.name(), b.state());
  });
  for (v1::JobStatus& job : jobs) {
    auto& ranks = *job.mutable_ranks();
    std::sort(ranks.begin(), ranks.end(),
              [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
    auto& groups = *job.mutable_groups();
    std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
      return std::pair(a.name(), a.id()) < std::pair(b.name(), b.id());
    });
    for (v1::GroupStatus& group : groups) {
      auto& members = *group.mutable_ranks();
      std::sort(members.begin(), members.end(),
                [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
    }
  }
  const v1::TopologyReply topology = cluster::TopologyOf(call.reply);
  call.reply.set_shape(topology.shape());
  *call.reply.mutable_ring() = topology.ring();
  control::HideOthers(call.viewer, call.reply);
  call.answer->Succeed(call.reply);
}

}  // namespace mlxcomm
