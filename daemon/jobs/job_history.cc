#include "daemon/jobs/job_history.h"

#include <algorithm>
#include <ranges>
#include <string_view>
#include <utility>

#include "proto/types/plain_text.h"

namespace mlxcomm::jobs {

void JobHistory::OnFormed(std::uint64_t group, const JobId& id, std::uint32_t size) {
  v1::EndedJob& job = jobs_[group];
  job.Clear();
  job.set_name(id.name);
  job.set_user(id.user);
  job.set_group(group);
  job.set_size(size);
}

void JobHistory::OnShrunk(std::uint64_t group, std::uint64_t new_group, std::uint32_t size) {
  const auto found = jobs_.find(group);
  if (found == jobs_.end()) return;
  const v1::EndedJob job = std::move(found->second);
  jobs_.erase(found);
  OnFormed(new_group, {job.user(), job.name()}, size);
  jobs_[new_group].set_first_lost_pid(job.first_lost_pid() != 0 ? job.first_lost_pid() : job.pid());
}

bool JobHistory::OnFailed(std::uint64_t group, const Failure& failure,
                          const collective::GroupLayout* layout) {
  const auto found = jobs_.find(group);
  if (found == jobs_.end()) return false;
  v1::EndedJob& job = found->second;
  job.set_code(FailureCodeName(failure.code));
  job.set_detail(std::string(Utf8Prefix(failure.message, kTextBytesMax)));
  // Only the ranks can translate the words by which they check their calls.
  constexpr std::string_view kWord = " (check 00a1b2)";
  std::string& text = *job.mutable_detail();
  for (std::size_t at = 0; (at = text.find(" (check ", at)) != std::string::npos; ++at) {
    const std::size_t last = at + kWord.size() - 1;
    if (last < text.size() && text[last] == ')') text.erase(at--, kWord.size());
  }
  const auto rank = static_cast<std::uint32_t>(failure.rank);
  if (layout == nullptr || failure.rank < 0 || rank >= layout->rank_count()) return true;
  job.set_rank(rank);
  job.set_node(layout->member(rank).node_name);
  job.set_pid(layout->member(rank).pid);
  return true;
}

const v1::EndedJob* JobHistory::OnRemoved(std::uint64_t group, std::uint64_t now_ns) {
  const auto found = jobs_.find(group);
  if (found == jobs_.end()) return nullptr;
  v1::EndedJob job = std::move(found->second);
  jobs_.erase(found);
  const auto is_same_user = [&job](const Ended& one) { return one.job.user() == job.user(); };
  std::erase_if(ended_, [now_ns](const Ended& one) { return one.ended_ns + kKeptNs <= now_ns; });
  if (std::ranges::count_if(ended_, is_same_user) >= std::ptrdiff_t{kPerUserMax}) {
    ended_.erase(std::ranges::find_if(ended_, is_same_user));
  }
  if (ended_.size() >= kEndedMax) ended_.pop_front();
  return &ended_.emplace_back(Ended{now_ns, std::move(job)}).job;
}

void JobHistory::Write(std::uint64_t now_ns,
                       google::protobuf::RepeatedPtrField<v1::EndedJob>& ended) const {
  for (const Ended& one : std::views::reverse(ended_)) {
    if (one.ended_ns + kKeptNs <= now_ns) continue;
    v1::EndedJob& reported = *ended.Add();
    reported = one.job;
    reported.set_ended_ms_ago((now_ns - std::min(now_ns, one.ended_ns)) / 1'000'000);
  }
}

}  // namespace mlxcomm::jobs
