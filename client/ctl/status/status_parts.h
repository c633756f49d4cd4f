// Parts of texts about the status: colours, tables, lists of ranks, and what both forms of a status
// share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/cli/terminal.h"
#include "client/ctl/cli/text.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

class Painter {
 public:
  explicit Painter(bool colours) : colours_(colours) {}
  std::string Bold(const std::string& text) const { return Wrap("1", Shown(text)); }
  std::string Good(const std::string& text) const { return Wrap("32", Shown(text)); }
  std::string Bad(const std::string& text) const { return Wrap("31", Shown(text)); }
  std::string State(const std::string& text) const {
    return text == "up" || text == "running" ? Good(text) : Bad(text);
  }

 private:
  std::string Wrap(const char* code, const std::string& text) const {
    return Coloured(code, text, colours_);
  }
  bool colours_;
};

// A table whose columns are as wide as their widest cell.
class AlignedRows {
 public:
  static constexpr std::size_t kNoColour = ~std::size_t{0};
  using Row = std::vector<std::string>;

  void Add(Row row) {
    widths_.resize(std::max(widths_.size(), row.size()));
    for (std::size_t at = 0; at < row.size(); ++at) {
      widths_[at] = std::max(widths_[at], WidthOf(row[at]));
    }
    rows_.push_back(std::move(row));
  }
  std::size_t size() const { return rows_.size(); }
  // `state` is the index of the coloured cell. No trailing blanks.
  std::string Line(std::size_t row, std::size_t state, const Painter& paint) const {
    std::string line;
    std::string blanks;
    for (std::size_t at = 0; at < rows_[row].size(); ++at) {
      const std::string& cell = rows_[row][at];
      if (!cell.empty()) {
        line += blanks + (at == state ? paint.State(cell) : cell);
        blanks.clear();
      }
      blanks += std::string(widths_[at] - WidthOf(cell) + 2, ' ');
    }
    return line;
  }

 private:
  std::vector<Row> rows_;
  std::vector<std::size_t> widths_;
};

// "rank 3", "ranks 0, 2", "ranks 0-62, 64".
template <typename Numbers>
std::string RanksOf(const Numbers& ranks) {
  using Index = decltype(ranks.size());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (Index i = 0; i < ranks.size();) {
    Index last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i < 2) last = i;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

// "up"; "draining, 1 job, 3 s left".
std::string StateOf(const v1::NodeStatus& node);
// A line for each fault of a link that is up.
void RenderLinkFaults(const v1::LinkStatus& link, const std::string& indent, const Painter& paint,
                      std::string& out);
// "tcp en2 192.0.2.1:7470 - en3 192.0.2.2:7470  up"
std::string EndsOf(const v1::RailStatus& rail, const Painter& paint);
void RenderDownRail(const v1::RailStatus& rail, const std::string& indent, const Painter& paint,
                    std::string& out);
// Returns whether the rail may still come up without help; for connections the health line says
// more.
bool Passes(const v1::RailStatus& rail);
// Devices in use, with their resources. `slow_only`: only those whose driver does not answer.
void RenderDevices(const v1::NodeStatus& node, bool slow_only, const std::string& indent,
                   std::string& out);
// "1 of 10 queue pairs, 2 of 100 memory regions"; empty: the device is not open.
std::string UsesOf(const v1::TransportDevice& device);
// Reports Thunderbolt ports in a bridge, and what that costs.
void RenderBridged(const v1::DiscoveryStatus& discovery, const std::string& indent,
                   std::string& out);
void RenderUnlinked(const v1::NodeStatus& node, const std::string& indent, std::string& out);
// A job's state in a line. `count_ranks`: "3 of 3 ranks", not "3 ranks".
std::string JobLine(const v1::JobStatus& job, bool count_ranks, const Painter& paint);
// The job's ranks that copy results, and what that costs.
void RenderCopies(const v1::JobStatus& job, const std::string& indent, std::string& out);
// A line for each job that failed recently, the newest first, at most five.
void RenderFailedJobs(const v1::StatusReply& status, const std::string& before,
                      const Painter& paint, std::string& out);
// "health: all is well"
std::string HealthLine(const v1::StatusReply& status, const Painter& paint);
// The waits of a job or group.
void RenderWaits(const google::protobuf::RepeatedPtrField<v1::WaitStatus>& waits,
                 const std::string& indent, std::string& out);

}  // namespace mlxcomm::ctl
