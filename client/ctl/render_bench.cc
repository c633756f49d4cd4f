#include "client/ctl/render_bench.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "client/ctl/quantities.h"
#include "client/ctl/render_status.h"

namespace mlxcomm::ctl {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e3;

std::string Percent(double fraction) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f%%", fraction * 100);
  return text;
}

// Four digits are more than two runs agree in.
std::string Figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", value < 10 ? 2 : value < 1000 ? 1 : 0, value);
  return text;
}

// "-": nothing was carried by a link whose best is known.
std::string BusiestLink(const std::vector<LinkLoad>& loads) {
  double most = 0;
  for (const LinkLoad& load : loads) most = std::max(most, load.fraction());
  return most > 0 ? Percent(most) : "-";
}

std::string OperatorName(const BenchSubject& subject) {
  return subject.op == ReduceOperator::kNone ? ""
                                             : std::string(" ") + ReduceOperatorName(subject.op);
}

// Names come from other nodes: whatever is in them stays inside the string.
std::string JsonString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    char escape[8];
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string Object(std::initializer_list<std::pair<const char*, std::string>> fields) {
  std::string object;
  for (const auto& [name, value] : fields) {
    object += (object.empty() ? "{" : ", ") + JsonString(name) + ": " + value;
  }
  return object + "}";
}

std::string JsonOf(const RailLoad& load) {
  return Object({{"transport", JsonString(load.transport)},
                 {"bytes_per_operation", Number(load.bytes)},
                 {"bytes_per_second", Number(load.bytes_per_second)},
                 {"best_bytes_per_second", Number(load.best_bytes_per_second)}});
}

std::string JsonOf(const LinkLoad& load) {
  std::string rails;
  for (const RailLoad& rail : load.rails) rails += (rails.empty() ? "" : ", ") + JsonOf(rail);
  return Object({{"from", JsonString(load.from)},
                 {"to", JsonString(load.to)},
                 {"bytes_per_operation", Number(load.bytes)},
                 {"bytes_per_second", Number(load.bytes_per_second)},
                 {"best_bytes_per_second", Number(load.best_bytes_per_second)},
                 {"fraction_of_best", Number(load.fraction())},
                 {"rails", "[" + rails + "]"}});
}

// "rdma 1.90 GB/s (93%, at best 5.10 GB/s), tcp ..."; empty where there is one kind of rails, of TCP.
std::string RenderRails(const LinkLoad& load) {
  const bool only_tcp = load.rails.size() == 1 && load.rails[0].transport == "tcp";
  if (load.rails.empty() || only_tcp) return {};
  std::string text;
  for (const RailLoad& rail : load.rails) {
    const double share = load.bytes > 0 ? rail.bytes / load.bytes : 0;
    text += (text.empty() ? "    over " : ", ") + Shown(rail.transport) + " " +
            HumanRate(static_cast<std::uint64_t>(rail.bytes_per_second)) + " (" + Percent(share) +
            " of the bytes";
    if (rail.best_bytes_per_second > 0) {
      text += ", at best " + HumanRate(static_cast<std::uint64_t>(rail.best_bytes_per_second));
    }
    text += ")";
  }
  return text + "\n";
}

std::string JsonOf(const BenchRun& run, const BenchResult& result) {
  const std::uint64_t bytes = BenchBytes(run.subject, result.count);
  std::string links;
  for (const LinkLoad& load : result.loads) links += (links.empty() ? "" : ", ") + JsonOf(load);
  return Object({{"bytes", std::to_string(bytes)},
                 {"count", std::to_string(result.count)},
                 {"time_us", Number(result.mean_ns / kMicro)},
                 {"time_us_fastest_rank", Number(result.fastest_ns / kMicro)},
                 {"time_us_slowest_rank", Number(result.slowest_ns / kMicro)},
                 {"algorithm_bytes_per_second", Number(AlgorithmBandwidth(bytes, result.mean_ns))},
                 {"bus_bytes_per_second", Number(BusBandwidth(run.subject, bytes, result.mean_ns))},
                 {"wrong", run.check ? std::to_string(result.wrong) : "null"},
                 {"links", "[" + links + "]"}});
}

}  // namespace

bool ParseBenchResult(const std::string& line, BenchResult& result) {
  std::istringstream words(line);
  return static_cast<bool>(words >> result.count >> result.operations >> result.mean_ns >>
                           result.fastest_ns >> result.slowest_ns >> result.wrong) &&
         result.count > 0 && result.mean_ns > 0;
}

std::string RenderBenchHead(const BenchRun& run) {
  const BenchSubject& subject = run.subject;
  char head[160];
  std::snprintf(head, sizeof head, "%12s %12s %9s %10s %9s %9s %6s %6s\n", "size", "count", "type",
                "time", "algbw", "busbw", "link", "wrong");
  char units[160];
  std::snprintf(units, sizeof units, "%12s %12s %9s %10s %9s %9s %6s %6s\n", "(B)", "(elements)",
                "", "(us)", "(GB/s)", "(GB/s)", "", "");
  return std::string(BenchKindName(subject.kind)) + OperatorName(subject) + ", " +
         Plural(subject.ranks, "rank") +
         (run.nodes == 0 ? "" : " on a cluster of " + Plural(run.nodes, "node")) + ", " +
         (run.in_place ? "in place, " : "") + Plural(run.iterations, "iteration") + " after " +
         std::to_string(run.warm_up) + " to warm up\n" + head + units;
}

std::string RenderBenchRow(const BenchRun& run, const BenchResult& result) {
  const std::uint64_t bytes = BenchBytes(run.subject, result.count);
  char row[200];
  std::snprintf(
      row, sizeof row, "%12" PRIu64 " %12" PRIu64 " %9s %10s %9s %9s %6s %6s\n", bytes,
      result.count, DataTypeName(run.subject.type), Figure(result.mean_ns / kMicro).c_str(),
      Figure(AlgorithmBandwidth(bytes, result.mean_ns) / kGiga).c_str(),
      Figure(BusBandwidth(run.subject, bytes, result.mean_ns) / kGiga).c_str(),
      BusiestLink(result.loads).c_str(), run.check ? std::to_string(result.wrong).c_str() : "-");
  return row;
}

std::string RenderBenchEnd(const BenchRun& run) {
  if (run.results.empty()) return {};
  std::string end;
  const BenchResult& largest = run.results.back();
  if (!largest.loads.empty()) {
    end += "links, at " + HumanBytes(static_cast<double>(BenchBytes(run.subject, largest.count))) +
           "\n";
  }
  for (const LinkLoad& load : largest.loads) {
    end += "  " + Shown(load.from) + " to " + Shown(load.to) + "  " +
           HumanRate(static_cast<std::uint64_t>(load.bytes_per_second));
    end += load.best_bytes_per_second > 0
               ? ", " + Percent(load.fraction()) + " of its best (" +
                     HumanRate(static_cast<std::uint64_t>(load.best_bytes_per_second)) + ")\n"
               : "\n";
    end += RenderRails(load);
  }
  std::uint64_t wrong = 0;
  for (const BenchResult& result : run.results) wrong += result.wrong;
  if (!run.check) return end + "values were not checked\n";
  return end + (wrong == 0 ? "all values are right\n"
                           : "WRONG: " + Plural(wrong, "element") +
                                 ". Tell the makers, with mlxcommctl record of all nodes\n");
}

std::string BenchJson(const BenchRun& run) {
  std::string results;
  for (const BenchResult& result : run.results) {
    results += (results.empty() ? "\n  " : ",\n  ") + JsonOf(run, result);
  }
  return Object({{"operation", JsonString(BenchKindName(run.subject.kind))},
                 {"data_type", JsonString(DataTypeName(run.subject.type))},
                 {"operator", run.subject.op == ReduceOperator::kNone
                                  ? "null"
                                  : JsonString(ReduceOperatorName(run.subject.op))},
                 {"ranks", std::to_string(run.subject.ranks)},
                 {"cluster", JsonString(run.cluster)},
                 {"nodes", std::to_string(run.nodes)},
                 {"iterations", std::to_string(run.iterations)},
                 {"warm_up", std::to_string(run.warm_up)},
                 {"in_place", run.in_place ? "true" : "false"},
                 {"results", "[" + results + "]"}}) +
         "\n";
}

}  // namespace mlxcomm::ctl
