#include "client/ctl/jobs/render_jobs.h"

#include <algorithm>
#include <array>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/status/health.h"
#include "client/ctl/status/status_parts.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kJobColumns = 5;
using JobRow = std::array<std::string, kJobColumns>;

std::string NodesOf(const v1::JobStatus& job) {
  std::vector<std::string> nodes;
  for (const v1::RankStatus& rank : job.ranks()) {
    const std::string node = Shown(rank.node());
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  std::string text;
  for (const std::string& node : nodes) text += (text.empty() ? "" : ", ") + node;
  return text;
}

JobRow RowOfJob(const v1::JobStatus& job) {
  const auto there = static_cast<std::uint32_t>(job.ranks_size());
  const std::string ranks =
      (there < job.size() ? std::to_string(there) + " of " : "") + std::to_string(job.size());
  return {Shown(job.name()), Shown(job.state()), ranks, NodesOf(job), Shown(job.detail())};
}

JobRow RowOfEnded(const v1::EndedJob& job) {
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
  std::vector<JobRow> rows = {{"job", "state", "ranks", "nodes", ""}};
  for (const v1::JobStatus& job : list.jobs()) rows.push_back(RowOfJob(job));
  for (const v1::EndedJob& job : list.ended_jobs()) rows.push_back(RowOfEnded(job));
  std::array<std::size_t, kJobColumns> widths{};
  for (const JobRow& row : rows) {
    for (std::size_t at = 0; at < kJobColumns; ++at) {
      widths[at] = std::max(widths[at], WidthOf(row[at]));
    }
  }
  std::string text;
  for (const JobRow& row : rows) {
    std::string line;
    std::string blanks;
    for (std::size_t at = 0; at < kJobColumns; ++at) {
      if (!row[at].empty()) {
        line += blanks + (at == 1 && &row != &rows.front() ? paint.State(row[at]) : row[at]);
        blanks.clear();
      }
      blanks += std::string(widths[at] - WidthOf(row[at]) + 2, ' ');
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace mlxcomm::ctl
