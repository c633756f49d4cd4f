#include "client/ctl/jobs/render_jobs.h"

#include <algorithm>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/status/aligned_rows.h"
#include "client/ctl/status/health.h"

namespace mlxcomm::ctl {
namespace {

std::string NodesOf(const v1::JobStatus& job) {
  std::vector<std::string> nodes;
  for (const v1::RankStatus& rank : job.ranks()) {
    const std::string node = Shown(rank.node());
    if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  }
  std::string text;
  for (const std::string& node : nodes) text += (text.empty() ? "" : ", ") + node;
  return text;
}

AlignedRows::Row RowOfJob(const v1::JobStatus& job) {
  const auto there = static_cast<std::uint32_t>(job.ranks_size());
  const std::string ranks =
      (there < job.size() ? std::to_string(there) + " of " : "") + std::to_string(job.size());
  return {Shown(job.name()), Shown(job.state()), ranks, NodesOf(job), Shown(job.detail())};
}

AlignedRows::Row RowOfEnded(const v1::EndedJob& job) {
  std::string how = HumanTime(job.ended_ms_ago()) + " ago";
  if (!job.code().empty()) how += ": " + job.code() + ": " + job.detail();
  return {Shown(job.name()), HasFailed(job) ? "failed" : "ended", std::to_string(job.size()),
          job.code().empty() ? "" : Shown(job.node()), Shown(how)};
}

}  // namespace

v1::JobList JobsOf(const v1::StatusReply& status) {
  v1::JobList list;
  *list.mutable_jobs() = status.jobs();
  *list.mutable_ended_jobs() = status.ended_jobs();
  return list;
}

std::string RenderJobList(const v1::JobList& list, bool colours) {
  if (list.jobs_size() == 0 && list.ended_jobs_size() == 0) return "no jobs\n";
  const Painter paint(colours);
  constexpr std::size_t kState = 1;
  AlignedRows table;
  table.Add({"job", "state", "ranks", "nodes"});
  for (const v1::JobStatus& job : list.jobs()) table.Add(RowOfJob(job));
  for (const v1::EndedJob& job : list.ended_jobs()) table.Add(RowOfEnded(job));
  std::string text = table.Line(0, AlignedRows::kNoColour, paint) + "\n";
  for (std::size_t row = 1; row < table.size(); ++row)
    text += table.Line(row, kState, paint) + "\n";
  return text;
}

}  // namespace mlxcomm::ctl
