#include "daemon/node/job_history.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "proto/types/plain_text.h"

namespace mlxcomm::node {

void JobHistory::OnFormed(std::uint64_t group, const JobId& id, std::uint32_t size) {
  Job& job = jobs_[group];
  job = Job();
  job.id = id;
  job.size = size;
}

void JobHistory::OnShrunk(std::uint64_t group, std::uint64_t new_group, std::uint32_t size) {
  const auto found = jobs_.find(group);
  if (found == jobs_.end()) return;
  const Job job = std::move(found->second);
  jobs_.erase(found);
  OnFormed(new_group, job.id, size);
  jobs_[new_group].first_lost_pid = job.first_lost_pid != 0 ? job.first_lost_pid : job.pid;
}

void JobHistory::OnFailed(std::uint64_t group, const Failure& failure,
                          const collective::GroupLayout* layout) {
  const auto found = jobs_.find(group);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  job.failure = failure;
  job.failure.message = std::string(Utf8Prefix(failure.message, kTextBytesMax));
  // Only the ranks can translate the words by which they check their calls.
  constexpr std::string_view kWord = " (check 00a1b2)";
  std::string& text = job.failure.message;
  for (std::size_t at = 0; (at = text.find(" (check ", at)) != std::string::npos; ++at) {
    const std::size_t last = at + kWord.size() - 1;
    if (last < text.size() && text[last] == ')') text.erase(at--, kWord.size());
  }
  const auto rank = static_cast<std::uint32_t>(failure.rank);
  if (layout == nullptr || failure.rank < 0 || rank >= layout->rank_count()) return;
  job.node = layout->member(rank).node_name;
  job.pid = layout->member(rank).pid;
}

const JobHistory::Job* JobHistory::OnRemoved(std::uint64_t group, std::uint64_t now_ns) {
  const auto found = jobs_.find(group);
  if (found == jobs_.end()) return nullptr;
  Job job = std::move(found->second);
  jobs_.erase(found);
  std::erase_if(ended_, [now_ns](const auto& of_user) {
    return of_user.second.back().ended_ns + kKeptNs <= now_ns;
  });
  if (ended_.size() >= kUsersMax && !ended_.contains(job.id.user)) {
    ended_.erase(std::ranges::min_element(
        ended_, {}, [](const auto& of_user) { return of_user.second.back().ended_ns; }));
  }
  std::deque<Ended>& of_user = ended_[job.id.user];
  if (of_user.size() >= kPerUserMax) of_user.pop_front();
  return &of_user.emplace_back(Ended{group, now_ns, std::move(job)}).job;
}

const JobHistory::Job* JobHistory::Find(std::uint64_t group) const {
  const auto found = jobs_.find(group);
  return found == jobs_.end() ? nullptr : &found->second;
}

void JobHistory::Write(std::uint64_t now_ns,
                       google::protobuf::RepeatedPtrField<v1::EndedJob>& ended) const {
  for (const auto& [user, jobs] : ended_) {
    for (const Ended& one : jobs) {
      if (one.ended_ns + kKeptNs <= now_ns) continue;
      v1::EndedJob& told = *ended.Add();
      told.set_name(one.job.id.name);
      told.set_user(user);
      told.set_group(one.group);
      told.set_size(one.job.size);
      told.set_ended_ms_ago((now_ns - std::min(now_ns, one.ended_ns)) / 1'000'000);
      told.set_first_lost_pid(one.job.first_lost_pid);
      if (one.job.failure.ok()) continue;
      told.set_code(FailureCodeName(one.job.failure.code));
      told.set_detail(one.job.failure.message);
      if (one.job.node.empty()) continue;
      told.set_rank(static_cast<std::uint32_t>(one.job.failure.rank));
      told.set_node(one.job.node);
      told.set_pid(one.job.pid);
    }
  }
  std::ranges::stable_sort(ended, {}, &v1::EndedJob::ended_ms_ago);
}

}  // namespace mlxcomm::node
