#include "client/ctl/render_record.h"

#include <algorithm>
#include <array>
#include <vector>

#include "client/ctl/quantities.h"
#include "client/ctl/render_status.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kColumns = 11;
using Row = std::array<std::string, kColumns>;

std::uint64_t Between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return from_ns != 0 && to_ns > from_ns ? to_ns - from_ns : 0;
}

std::string PhaseText(std::uint64_t from_ns, std::uint64_t to_ns) {
  return from_ns == 0 || to_ns == 0 ? "-" : HumanNanoseconds(Between(from_ns, to_ns));
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

// What came before the end: the last byte, or on one node the match.
std::uint64_t BeforeEnd(const v1::RecordedOperation& operation) {
  return operation.last_byte_ns() != 0 ? operation.last_byte_ns() : operation.matched_ns();
}

Row RowOf(const v1::RecordedOperation& operation, std::uint64_t now_ns) {
  const std::uint64_t called = CalledAt(operation);
  const bool ended = operation.ended_ns() != 0;
  Row row;
  row[0] = HumanNanoseconds(Between(called, now_ns));
  row[1] = GroupOf(operation);
  row[2] = DescribeRecorded(operation);
  row[3] = BytesText(operation.bytes());
  row[4] = operation.failure().empty() ? operation.state() : operation.failure();
  row[5] = PhaseText(called, ended ? operation.ended_ns() : now_ns);
  row[6] = PhaseText(called, operation.matched_ns());
  row[7] = PhaseText(operation.matched_ns(), operation.first_byte_ns());
  row[8] = PhaseText(operation.first_byte_ns(), operation.last_byte_ns());
  row[9] = PhaseText(BeforeEnd(operation), operation.ended_ns());
  row[10] = operation.last().empty() ? "-" : Shown(operation.last());
  return row;
}

// Numbers to the right, names to the left.
std::string Table(const std::vector<Row>& rows) {
  constexpr std::array<bool, kColumns> kRight = {true, false, false, true,  false, true,
                                                 true, true,  true,  true,  false};
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

// Of an operation that somebody will ask about.
std::string Details(const v1::RecordedOperation& operation, std::uint64_t now_ns) {
  std::string text = "  " + GroupOf(operation) + " " + DescribeRecorded(operation) + ": ";
  // What has begun was called, though the ring may have lost it.
  const bool begun = operation.matched_ns() != 0 || operation.first_byte_ns() != 0 ||
                     operation.last_byte_ns() != 0;
  text += operation.called_size() > 0 ? "called here by rank " + RanksText(operation.called())
          : begun                     ? "called here before the record begins"
                                      : "no rank of this node has called it";
  std::string heard;
  for (const v1::RecordedRank& rank : operation.heard()) {
    heard += (heard.empty() ? "" : ", ") +
             (rank.node().empty() ? "the node of rank " + std::to_string(rank.rank())
                                  : "node " + Shown(rank.node()));
  }
  text += heard.empty() ? "; heard from no other node" : "; heard from " + heard;
  for (const v1::RecordedRail& rail : operation.rails()) {
    text += "; " + Shown(rail.rail()) + " carried " + BytesText(rail.sent_bytes()) + " out, " +
            BytesText(rail.received_bytes()) + " in, the last " +
            HumanNanoseconds(Between(rail.last_ns(), now_ns)) + " ago";
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
  const std::uint64_t called = CalledAt(operation);
  const std::uint64_t end = operation.ended_ns() != 0 ? operation.ended_ns() : now_ns;
  Phases phases;
  phases.total_ns = Between(called, end);
  phases.ranks_ns = Between(called, operation.matched_ns());
  phases.peers_ns = Between(operation.matched_ns(), operation.first_byte_ns());
  phases.data_ns = Between(operation.first_byte_ns(), operation.last_byte_ns());
  phases.end_ns = Between(BeforeEnd(operation), operation.ended_ns());
  return phases;
}

std::string RenderRecord(const v1::FlightRecordReply& record) {
  std::string text = "node " + Shown(record.node()) + ": ";
  if (record.operations_size() == 0) return text + "no operation is recorded\n";
  const auto shown = static_cast<std::uint64_t>(record.operations_size());
  text += (record.operations_left_out() > 0 ? "the last " : "") + std::to_string(shown) +
          (shown == 1 ? " operation" : " operations");
  if (record.operations_left_out() > 0) {
    text += " of " + std::to_string(shown + record.operations_left_out()) + " recorded";
  }
  text += "\n";
  std::vector<Row> rows = {{"ago", "group", "operation", "bytes", "state", "total", "ranks",
                            "peers", "data", "end", "last"}};
  std::string details;
  for (const v1::RecordedOperation& operation : record.operations()) {
    rows.push_back(RowOf(operation, record.taken_ns()));
    if (operation.state() != "done") details += Details(operation, record.taken_ns());
  }
  text += Table(rows);
  return details.empty() ? text : text + "not done\n" + details;
}

}  // namespace mlxcomm::ctl
