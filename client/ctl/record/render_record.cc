#include "client/ctl/record/render_record.h"

#include <algorithm>
#include <array>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kColumns = 11;
using Row = std::array<std::string, kColumns>;

std::uint64_t Between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return from_ns != 0 && to_ns > from_ns ? to_ns - from_ns : 0;
}

std::string PhaseText(const Phase& phase) {
  return phase.begin_ns == 0 ? "-" : HumanNanoseconds(Between(phase.begin_ns, phase.end_ns));
}

std::string BytesText(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::uint64_t CalledAt(const v1::RecordedOperation& operation) {
  if (operation.called_size() > 0) return operation.called(0).at_ns();
  return operation.heard_size() > 0 ? operation.heard(0).at_ns() : operation.ended_ns();
}

std::string GroupOf(const v1::RecordedOperation& operation) {
  return operation.group_name().empty() ? std::to_string(operation.group())
                                        : Shown(operation.group_name());
}

bool IsDone(const v1::RecordedOperation& operation) {
  return operation.ended_ns() != 0 && operation.failure().empty();
}

// True for an operation with a plan, or one that has moved data.
bool IsBetweenNodes(const v1::RecordedOperation& operation) {
  if (IsDone(operation)) return operation.first_byte_ns() != 0;
  const bool message = operation.point_to_point() && operation.called_size() == 1 &&
                       operation.source_rank() != operation.destination_rank();
  return message || !operation.plan().empty() || operation.first_byte_ns() != 0 ||
         operation.heard_size() > 0;
}

// When the first data of another node arrived; 0 if not yet.
std::uint64_t MetAt(const v1::RecordedOperation& operation) {
  if (operation.first_byte_ns() == 0) return 0;
  if (operation.heard_size() == 0) return IsDone(operation) ? operation.first_byte_ns() : 0;
  return std::max(operation.first_byte_ns(), operation.heard(0).at_ns());
}

Row RowOf(const v1::RecordedOperation& operation, std::uint64_t now_ns) {
  const std::uint64_t called = CalledAt(operation);
  const Phases phases = PhasesOf(operation, now_ns);
  Row row;
  row[0] = HumanNanoseconds(Between(called, now_ns));
  row[1] = GroupOf(operation);
  row[2] = DescribeRecorded(operation);
  row[3] = BytesText(operation.bytes());
  row[4] = operation.failure().empty() ? operation.state() : operation.failure();
  row[5] = PhaseText({called, operation.ended_ns() != 0 ? operation.ended_ns() : now_ns});
  row[6] = PhaseText(phases.ranks);
  row[7] = PhaseText(phases.peers);
  row[8] = PhaseText(phases.data);
  row[9] = PhaseText(phases.end);
  row[10] = operation.last().empty() ? "-" : Shown(operation.last());
  return row;
}

// Aligns numbers to the right and names to the left.
std::string Table(const std::vector<Row>& rows) {
  constexpr std::array<bool, kColumns> kRight = {true, false, false, true, false, true,
                                                 true, true,  true,  true, false};
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      line += "  " + (kRight[i] ? gap + row[i] : row[i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

template <typename Ranks>
std::string RanksText(const Ranks& ranks) {
  std::string text;
  for (const v1::RecordedRank& rank : ranks) {
    text += (text.empty() ? "" : ", ") + std::to_string(rank.rank());
  }
  return text;
}

std::string Details(const v1::RecordedOperation& operation, std::uint64_t now_ns) {
  std::string text = "  " + GroupOf(operation) + " " + DescribeRecorded(operation) + ": ";
  // The ring may have lost the call of an operation that has begun.
  const bool begun = operation.matched_ns() != 0 || operation.first_byte_ns() != 0 ||
                     operation.last_byte_ns() != 0;
  text += operation.called_size() > 0 ? "called here by rank " + RanksText(operation.called())
          : begun                     ? "called here before the record begins"
                                      : "no rank of this node has called it";
  std::string heard;
  for (const v1::RecordedRank& rank : operation.heard()) {
    heard += (heard.empty() ? "" : ", ") + (rank.node().empty()
                                                ? "the node of rank " + std::to_string(rank.rank())
                                                : "node " + Shown(rank.node()));
  }
  text += heard.empty() ? "; heard from no other node" : "; heard from " + heard;
  for (const v1::RecordedRail& rail : operation.rails()) {
    text += "; " + Shown(rail.rail()) + " carried " + (rail.at_least() ? "at least " : "") +
            BytesText(rail.sent_bytes()) + " out, " + BytesText(rail.received_bytes()) +
            " in, the last " + HumanNanoseconds(Between(rail.last_ns(), now_ns)) + " ago";
  }
  return text + "\n";
}

}  // namespace

std::string DescribeRecorded(const v1::RecordedOperation& operation) {
  std::string text = std::to_string(operation.number());
  if (!operation.operation().empty()) text += " " + Shown(operation.operation());
  if (!operation.point_to_point()) return text;
  return text + " " + std::to_string(operation.source_rank()) + ">" +
         std::to_string(operation.destination_rank()) + " tag " + std::to_string(operation.tag());
}

Phases PhasesOf(const v1::RecordedOperation& operation, std::uint64_t now_ns) {
  Phases phases;
  const std::uint64_t stop_ns = operation.ended_ns() != 0 ? operation.ended_ns() : now_ns;
  std::uint64_t since_ns = CalledAt(operation);
  // False if the operation has not passed this phase.
  const auto pass = [&since_ns, stop_ns](Phase& phase, std::uint64_t until_ns) {
    phase.begin_ns = since_ns;
    phase.end_ns = std::max(since_ns, until_ns != 0 ? until_ns : stop_ns);
    since_ns = phase.end_ns;
    return until_ns != 0;
  };
  // The ring may have lost the match of an operation that has moved data.
  if (!pass(phases.ranks,
            operation.matched_ns() != 0 ? operation.matched_ns() : operation.first_byte_ns())) {
    return phases;
  }
  if (IsBetweenNodes(operation)) {
    if (!pass(phases.peers, MetAt(operation))) return phases;
    if (!pass(phases.data, IsDone(operation) ? operation.last_byte_ns() : 0)) return phases;
  }
  pass(phases.end, operation.ended_ns());
  return phases;
}

std::string RenderRecord(const v1::FlightRecordReply& record) {
  std::string text = "node " + Shown(record.node()) + ": ";
  const std::uint64_t hidden = record.operations_of_others();
  const std::string others = Plural(hidden, "operation") + " of other users\n";
  if (record.operations_size() == 0) {
    return text + (hidden == 0 ? "no operation is recorded\n" : others);
  }
  const auto shown = static_cast<std::uint64_t>(record.operations_size());
  text += (record.operations_left_out() > 0 ? "the last " : "") + Plural(shown, "operation");
  if (record.operations_left_out() > 0) {
    text += " of " + std::to_string(shown + record.operations_left_out()) + " recorded";
  }
  text += "; mlxcommctl record --help explains the columns\n";
  std::vector<Row> rows = {{"ago", "group", "operation", "bytes", "state", "total", "ranks",
                            "peers", "data", "end", "last"}};
  std::string details;
  for (const v1::RecordedOperation& operation : record.operations()) {
    rows.push_back(RowOf(operation, record.taken_ns()));
    if (operation.state() != "done") details += Details(operation, record.taken_ns());
  }
  text += Table(rows);
  if (hidden > 0) text += "and " + others;
  return details.empty() ? text : text + "not done\n" + details;
}

}  // namespace mlxcomm::ctl
