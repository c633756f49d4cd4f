// The half of Engine that tells what it sees: its own part at once, the peers' parts
// when they answer or kStatusWaitNs is over.
#include <algorithm>
#include <utility>

#include <asio/post.hpp>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "daemon/engine.h"
#include "daemon/platform/machine.h"

namespace mlxcomm {

void Engine::Status(std::unique_ptr<control::StatusAnswer> answer) {
  if (!BeginCall()) {
    return answer->Fail({FailureCode::kResourceExhausted, kNoRank, "too many calls at once"});
  }
  asio::post(io_, [this, raw = answer.release()] {
    calls_.fetch_sub(1);
    BeginStatus(std::unique_ptr<control::StatusAnswer>(raw));
  });
}

void Engine::BeginStatus(std::unique_ptr<control::StatusAnswer> answer) {
  const std::uint64_t query = next_query_++;
  StatusCall& call = status_calls_[query];
  call.answer = std::move(answer);
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
  node.set_arena_bytes(counters.arena_bytes);
  node.set_memory_bytes(platform::OwnMemoryBytes());
  AddLinks(node);
  AddGroups(*jobs_of);
  AddWaiting(*jobs_of);
}

void Engine::AddLinks(v1::NodeStatus& node) const {
  for (const fabric::LinkSnapshot& snapshot : fabric_->Snapshot()) {
    v1::LinkStatus& link = *node.add_links();
    link.set_peer(snapshot.peer);
    link.set_state(snapshot.state);
    link.set_detail(snapshot.detail);
    for (const fabric::RailSnapshot& rail : snapshot.rails) {
      v1::RailStatus& told = *link.add_rails();
      told.set_transport(rail.transport);
      told.set_local_address(rail.local_address);
      told.set_remote_address(rail.remote_address);
      told.set_state(rail.up ? "up" : "down");
      told.set_sent_bytes(rail.sent_bytes);
      told.set_received_bytes(rail.received_bytes);
      told.set_sent_bytes_per_second(rail.sent_bytes_per_second);
      told.set_received_bytes_per_second(rail.received_bytes_per_second);
      told.set_round_trip_ns(rail.round_trip_ns);
    }
  }
}

v1::JobStatus& Engine::JobIn(v1::StatusReply& reply, const std::string& name) const {
  for (v1::JobStatus& job : *reply.mutable_jobs()) {
    if (job.name() == name) return job;
  }
  v1::JobStatus& job = *reply.add_jobs();
  job.set_name(name);
  return job;
}

void Engine::AddGroups(v1::StatusReply& reply) const {
  collectives_.ForEach([&](const collective::Group& group) {
    v1::JobStatus& job = JobIn(reply, group.name());
    job.set_size(group.layout().rank_count());
    job.set_state(group.failed() ? "failed" : "running");
    if (group.failed()) job.set_detail(group.failure().message);
    for (const collective::RankActivity& activity : group.Activity()) {
      if (activity.gone) continue;
      const collective::Member& member = group.layout().member(activity.rank);
      v1::RankStatus& rank = *job.add_ranks();
      rank.set_rank(activity.rank);
      rank.set_node(member.node_name);
      rank.set_pid(member.pid);
      for (const auto& [id, session] : sessions_) {
        if (session.group == group.id() && session.rank == activity.rank) {
          rank.set_program(session.program);
        }
      }
      rank.set_operations_done(activity.operations_done);
      if (!activity.busy) continue;
      const std::string operation =
          absl::StrCat(activity.call, ", ", collective::DescribeKey(activity.key));
      const std::uint64_t age_ms = (now_ns_ - activity.submitted_ns) / 1'000'000;
      rank.set_operation(operation);
      rank.set_operation_age_ms(age_ms);
      if (activity.awaited.empty()) continue;
      v1::WaitStatus& wait = *job.add_waits();
      wait.add_waiting(activity.rank);
      for (const std::uint32_t awaited : activity.awaited) wait.add_awaited(awaited);
      wait.set_operation(operation);
      wait.set_age_ms(age_ms);
    }
  });
}

void Engine::AddWaiting(v1::StatusReply& reply) const {
  for (const cluster::Rendezvous::Waiting& waiting : rendezvous_.AllWaiting()) {
    v1::JobStatus& job = JobIn(reply, waiting.claim.job);
    job.set_size(waiting.claim.size);
    if (job.state().empty()) job.set_state("forming");
    v1::RankStatus& rank = *job.add_ranks();
    rank.set_rank(waiting.claim.rank);
    rank.set_node(rendezvous_.NodeName(waiting.node));
    rank.set_pid(waiting.claim.pid);
    rank.set_program(waiting.claim.program);
  }
  for (v1::JobStatus& job : *reply.mutable_jobs()) {
    if (job.state() != "forming") continue;
    std::string missing;
    for (std::uint32_t rank = 0; rank < job.size(); ++rank) {
      const bool here = std::any_of(job.ranks().begin(), job.ranks().end(),
                                    [rank](const v1::RankStatus& r) { return r.rank() == rank; });
      if (!here) absl::StrAppend(&missing, missing.empty() ? "waits for rank " : ", ", rank);
    }
    job.set_detail(missing);
  }
}

void Engine::OnStatusQuery(const NodeId& node, std::uint64_t query) {
  v1::PeerMessage message;
  v1::StatusAnswer& answer = *message.mutable_status_answer();
  answer.set_query(query);
  v1::StatusReply own;
  FillOwnPart(*answer.mutable_node(), &own);
  for (const v1::JobStatus& job : own.jobs()) {
    if (job.state() != "forming") *answer.add_jobs() = job;
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
    if (other.id() == id) other = answer.node();
  }
  for (const v1::JobStatus& told : answer.jobs()) {
    v1::JobStatus& job = JobIn(call.reply, told.name());
    job.set_size(told.size());
    if (job.state().empty() || told.state() == "failed") {
      job.set_state(told.state());
      job.set_detail(told.detail());
    }
    job.mutable_ranks()->MergeFrom(told.ranks());
    job.mutable_waits()->MergeFrom(told.waits());
  }
  if (call.awaited.empty()) FinishStatus(answer.query());
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
  std::sort(jobs.begin(), jobs.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  for (v1::JobStatus& job : jobs) {
    auto& ranks = *job.mutable_ranks();
    std::sort(ranks.begin(), ranks.end(),
              [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
  }
  call.answer->Succeed(call.reply);
}

}  // namespace mlxcomm
