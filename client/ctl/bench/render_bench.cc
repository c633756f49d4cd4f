#include "client/ctl/bench/render_bench.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e3;

std::string Percent(double fraction) { return absl::StrFormat("%.0f%%", fraction * 100); }

// Three digits, because two runs do not agree on more.
std::string Figure(double value) {
  return absl::StrFormat("%.*f", value < 10 ? 2 : value < 1000 ? 1 : 0, value);
}

// "-" if no link with a known best rate carried anything.
std::string BusiestLink(const std::vector<v1::BenchLink>& loads) {
  double most = 0;
  for (const v1::BenchLink& load : loads) most = std::max(most, load.fraction_of_best());
  return most > 0 ? Percent(most) : "-";
}

std::string OperatorName(const BenchSubject& subject) {
  return subject.op == ReduceOperator::kNone ? ""
                                             : std::string(" ") + ReduceOperatorName(subject.op);
}

void Fill(const BenchRun& run, const BenchResult& result, v1::BenchSize& size) {
  const std::uint64_t bytes = BenchBytes(run.subject, result.count);
  size.set_bytes(static_cast<double>(bytes));
  size.set_count(static_cast<double>(result.count));
  size.set_time_us(result.mean_ns / kMicro);
  size.set_time_us_fastest_rank(result.fastest_ns / kMicro);
  size.set_time_us_slowest_rank(result.slowest_ns / kMicro);
  size.set_algorithm_bytes_per_second(AlgorithmBandwidth(bytes, result.mean_ns));
  size.set_bus_bytes_per_second(BusBandwidth(run.subject, bytes, result.mean_ns));
  if (run.check) {
    size.mutable_wrong()->set_number_value(static_cast<double>(result.wrong));
  } else {
    size.mutable_wrong()->set_null_value(google::protobuf::NULL_VALUE);
  }
  size.mutable_links()->Assign(result.loads.begin(), result.loads.end());
}

// "tcp 1.90 GB/s (93%, at best 5.10 GB/s), ..."; empty if all rails are TCP.
std::string RenderRails(const v1::BenchLink& load) {
  const bool only_tcp = load.rails_size() == 1 && load.rails(0).transport() == "tcp";
  if (load.rails().empty() || only_tcp) return {};
  std::string text;
  for (const v1::BenchRail& rail : load.rails()) {
    const double share = load.bytes_per_operation() > 0
                             ? rail.bytes_per_operation() / load.bytes_per_operation()
                             : 0;
    text += (text.empty() ? "    over " : ", ") + Shown(rail.transport()) + " " +
            HumanRate(rail.bytes_per_second()) + " (" + Percent(share) + " of the bytes";
    if (rail.best_bytes_per_second() > 0) {
      text += ", at best " + HumanRate(rail.best_bytes_per_second());
    }
    text += ")";
  }
  return text + "\n";
}

// " on mac-a", " on mac-a, mac-b", " on 8 nodes", " in a cluster of 8 nodes".
std::string Where(const BenchRun& run) {
  constexpr std::size_t kNamed = 4;
  if (run.places.empty())
    return run.nodes == 0 ? "" : " in a cluster of " + Plural(run.nodes, "node");
  if (run.places.size() > kNamed) return " on " + Plural(run.places.size(), "node");
  return " on " + Shown(absl::StrJoin(run.places, ", "));
}

}  // namespace

std::vector<std::string> PlacesOf(const v1::StatusReply& status, const std::string& job,
                                  std::uint32_t ranks) {
  std::map<std::uint32_t, std::string> node_of;
  for (const v1::JobStatus& one : status.jobs()) {
    if (one.name() != job || one.size() != ranks) continue;
    for (const v1::RankStatus& rank : one.ranks()) node_of[rank.rank()] = rank.node();
  }
  std::vector<std::string> places;
  if (node_of.size() != ranks) return places;
  for (const auto& [rank, node] : node_of) {
    if (std::ranges::find(places, node) == places.end()) places.push_back(node);
  }
  return places;
}

bool ParseBenchResult(const std::string& line, BenchResult& result) {
  std::istringstream words(line);
  return static_cast<bool>(words >> result.count >> result.operations >> result.mean_ns >>
                           result.fastest_ns >> result.slowest_ns >> result.wrong) &&
         result.count > 0 && result.mean_ns > 0;
}

std::string RenderBenchHead(const BenchRun& run) {
  const BenchSubject& subject = run.subject;
  static constexpr char kRow[] = "%12s %12s %9s %10s %9s %9s %6s %6s\n";
  return std::string(BenchKindName(subject.kind)) + OperatorName(subject) + ", " +
         Plural(subject.ranks, "rank") + Where(run) + ", " + (run.in_place ? "in place, " : "") +
         Plural(run.iterations, "iteration") + " after " + std::to_string(run.warm_up) +
         " to warm up\n" +
         absl::StrFormat(kRow, "size", "count", "type", "time", "algbw", "busbw", "link", "wrong") +
         absl::StrFormat(kRow, "(B)", "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "", "");
}

std::string RenderBenchRow(const BenchRun& run, const BenchResult& result) {
  const std::uint64_t bytes = BenchBytes(run.subject, result.count);
  return absl::StrFormat("%12d %12d %9s %10s %9s %9s %6s %6s\n", bytes, result.count,
                         DataTypeName(run.subject.type), Figure(result.mean_ns / kMicro),
                         Figure(AlgorithmBandwidth(bytes, result.mean_ns) / kGiga),
                         Figure(BusBandwidth(run.subject, bytes, result.mean_ns) / kGiga),
                         BusiestLink(result.loads), run.check ? std::to_string(result.wrong) : "-");
}

std::string RenderBenchEnd(const BenchRun& run) {
  if (run.results.empty()) return {};
  std::string end;
  const BenchResult& largest = run.results.back();
  if (!largest.loads.empty()) {
    end += "links, at " + HumanBytes(static_cast<double>(BenchBytes(run.subject, largest.count))) +
           "\n";
  }
  for (const v1::BenchLink& load : largest.loads) {
    end += "  " + Shown(load.from()) + " to " + Shown(load.to()) + "  " +
           HumanRate(load.bytes_per_second());
    end += load.best_bytes_per_second() > 0
               ? ", " + Percent(load.fraction_of_best()) + " of its best (" +
                     HumanRate(load.best_bytes_per_second()) + ")\n"
               : "\n";
    end += RenderRails(load);
  }
  std::uint64_t wrong = 0;
  for (const BenchResult& result : run.results) wrong += result.wrong;
  if (run.places.size() == 1 && run.nodes > 1) {
    end += "all ranks on " + Shown(run.places[0]) +
           ", so no cable was measured; to measure them: mlxcommctl bench --nodes all\n";
  }
  if (!run.check) return end + "values were not checked\n";
  return end + (wrong == 0 ? "all values are right\n"
                           : "WRONG: " + Plural(wrong, "element") +
                                 ". Report this with the archive of mlxcommctl bugreport\n");
}

std::string BenchJson(const BenchRun& run) {
  v1::BenchReport report;
  report.set_operation(BenchKindName(run.subject.kind));
  report.set_data_type(DataTypeName(run.subject.type));
  if (run.subject.op == ReduceOperator::kNone) {
    report.mutable_operator_()->set_null_value(google::protobuf::NULL_VALUE);
  } else {
    report.mutable_operator_()->set_string_value(ReduceOperatorName(run.subject.op));
  }
  report.set_ranks(run.subject.ranks);
  report.set_cluster(run.cluster);
  report.set_nodes(run.nodes);
  report.mutable_rank_nodes()->Assign(run.places.begin(), run.places.end());
  report.set_iterations(run.iterations);
  report.set_warm_up(run.warm_up);
  report.set_in_place(run.in_place);
  for (const BenchResult& result : run.results) Fill(run, result, *report.add_results());
  return JsonOf(std::move(report));
}

}  // namespace mlxcomm::ctl
