#include "daemon/metrics/metric_families.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <prometheus/metric_family.h>

#include "daemon/intake/guard/end_reason.h"
#include "proto/status_words.h"
#include "proto/types/operation.h"
#include "proto/types/plain_text.h"
#include "proto/types/version.h"

namespace mlxcomm::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<std::pair<std::string, std::string>>;
using Families = std::vector<MetricFamily>;

ClientMetric Metric(const Labels& labels) {
  ClientMetric metric;
  for (const auto& [name, value] : labels) {
    metric.label.push_back({name, value});
  }
  return metric;
}

MetricFamily& Begin(Families& families, const char* name, MetricType type, const char* help) {
  families.push_back({name, help, type, {}});
  return families.back();
}

void AddValue(MetricFamily& family, const Labels& labels, double value) {
  ClientMetric metric = Metric(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

// Families with one value and no labels.
struct Values {
  Families& families;
  void Gauge(const char* name, const char* help, auto value) {
    AddValue(Begin(families, name, MetricType::Gauge, help), {}, static_cast<double>(value));
  }
  void Count(const char* name, const char* help, std::uint64_t value) {
    AddValue(Begin(families, name, MetricType::Counter, help), {}, static_cast<double>(value));
  }
};

void AddNode(const v1::NodeStatus& node, Families& families) {
  Values add{families};
  add.Gauge("mlxcomm_uptime_seconds", "Seconds since the daemon started.",
            static_cast<double>(node.uptime_ms()) / 1e3);
  add.Gauge("mlxcomm_draining", "1 while the daemon drains and refuses new jobs.",
            node.state() == "draining" ? 1 : 0);
  const v1::UseStatus& use = node.use();
  add.Gauge("mlxcomm_clients", "Attached training processes.", use.clients());
  add.Gauge("mlxcomm_clients_max", "Limit of mlxcomm_clients.", use.clients_max());
  add.Gauge("mlxcomm_arena_bytes", "Address space of arenas, including those of ending processes.",
            use.arena_bytes());
  add.Gauge("mlxcomm_arena_bytes_max", "Limit of mlxcomm_arena_bytes.", use.arena_bytes_max());
  add.Gauge("mlxcomm_operations_in_flight", "Submitted and not completed.", use.operations());
  add.Gauge("mlxcomm_operations_in_flight_max", "Limit of mlxcomm_operations_in_flight.",
            use.operations_max());
  add.Gauge("mlxcomm_groups", "Jobs, splits, and failed groups that are not closed yet.",
            use.groups());
  add.Gauge("mlxcomm_groups_max", "Limit of mlxcomm_groups.", use.groups_max());
  add.Gauge("mlxcomm_memory_bytes", "The daemon's own memory, without arenas.",
            node.memory_bytes());
  add.Count("mlxcomm_clients_refused_total",
            "Refused local processes: bad hello, wrong user, a limit.", node.clients_refused());
  add.Count("mlxcomm_sessions_ended_for_garbage_total",
            "Sessions ended for data that no client library writes.",
            node.sessions_ended_for_garbage());
  MetricFamily& ended =
      Begin(families, "mlxcomm_control_connections_ended_total", MetricType::Counter,
            "Control connections ended for what the process sent or did not read.");
  for (std::size_t i = 1; i < guard::kEndReasons; ++i) {
    const char* const reason = guard::kEndReasonTexts[i].word;
    double count = 0;
    for (const v1::EndedConnections& reported : node.control_connections_ended()) {
      if (reported.reason() == reason) count = static_cast<double>(reported.count());
    }
    AddValue(ended, {{"reason", reason}}, count);
  }
  add.Count("mlxcomm_strangers_refused_total",
            "Connections to the peer port without proof of the key, or of another cluster.",
            node.strangers_refused());
  add.Gauge("mlxcomm_nodes_linked", "Neighbours: nodes with connections to this one.",
            node.nodes_linked());
  add.Gauge("mlxcomm_nodes_linked_max", "Limit of mlxcomm_nodes_linked.", node.nodes_linked_max());
  add.Count("mlxcomm_nodes_refused_total",
            "Nodes that were refused or gave up their place because of the limit.",
            node.nodes_refused());
}

// A cable is named by its interfaces, because its ports change. Rails over the same ones are one
// sample.
void AddRails(const v1::NodeStatus& node, Families& families) {
  std::map<Labels, std::vector<const v1::RailStatus*>> cables;
  for (const v1::LinkStatus& link : node.links()) {
    for (const v1::RailStatus& rail : link.rails()) {
      // Other nodes choose these names. They become printable here, so that equal results add up.
      cables[{{"peer", MakePrintable(link.peer())},
              {"transport", WordOf(rail.transport())},
              {"local_interface", rail.local_interface()},
              {"remote_interface", MakePrintable(rail.remote_interface())}}]
          .push_back(&rail);
    }
  }
  const auto add = [&](const char* name, MetricType type, const char* help, auto value) {
    MetricFamily& family = Begin(families, name, type, help);
    for (const auto& [labels, rails] : cables) {
      double sum = 0;
      for (const auto* const rail : rails) sum += static_cast<double>(std::invoke(value, *rail));
      AddValue(family, labels, sum);
    }
  };
  using v1::RailStatus;
  const auto is_up = [](const RailStatus& rail) { return rail.state() == v1::RailState::up; };
  add("mlxcomm_rails_up", MetricType::Gauge, "Rails that carry data.", is_up);
  add("mlxcomm_rails_down", MetricType::Gauge, "Rails that are configured or were up.",
      std::not_fn(is_up));
  add("mlxcomm_rail_sent_bytes_total", MetricType::Counter, "Since the rail came up.",
      &RailStatus::sent_bytes);
  add("mlxcomm_rail_received_bytes_total", MetricType::Counter, "Since the rail came up.",
      &RailStatus::received_bytes);
  add("mlxcomm_rail_copied_bytes_total", MetricType::Counter,
      "Sent by rails over devices after a copy, including headers.", &RailStatus::copied_bytes);
  add("mlxcomm_rail_direct_bytes_total", MetricType::Counter,
      "Sent by rails over devices straight from clients' memory.", &RailStatus::direct_bytes);
  MetricFamily& round_trip = Begin(families, "mlxcomm_rail_round_trip_seconds", MetricType::Gauge,
                                   "Longest of the last heartbeats; 0 until one was answered.");
  for (const auto& [labels, rails] : cables) {
    std::uint64_t longest = 0;
    for (const auto* const rail : rails) longest = std::max(longest, rail->round_trip_ns());
    AddValue(round_trip, labels, static_cast<double>(longest) / 1e9);
  }
  add("mlxcomm_rail_delivery_best_bytes_per_second", MetricType::Gauge,
      "Highest measured bandwidth; 0 if the rail was never busy.",
      &RailStatus::delivery_bytes_per_second_best);
}

void AddLinks(const v1::NodeStatus& node, Families& families) {
  MetricFamily& up = Begin(families, "mlxcomm_link_up", MetricType::Gauge,
                           "1 if the neighbour is reachable, directly or through other nodes.");
  std::map<std::string, double>
      links;  // An address that leads to a known peer counts for that peer.
  std::map<std::string, double> frames_changed;
  for (const v1::LinkStatus& link : node.links()) {
    double& value = links[MakePrintable(link.peer())];
    if (link.state() == v1::LinkState::up) value = 1;
    frames_changed[MakePrintable(link.peer())] += static_cast<double>(link.changed_frames());
  }
  for (const auto& [peer, value] : links) AddValue(up, {{"peer", peer}}, value);
  MetricFamily& changed =
      Begin(families, "mlxcomm_link_changed_frames_total", MetricType::Counter,
            "Frames from the neighbour that were corrupted or lost, and resent.");
  for (const auto& [peer, frames] : frames_changed) AddValue(changed, {{"peer", peer}}, frames);
}

void AddOperations(const record::OperationCounts& operations, Families& families) {
  using record::OperationCounts;
  families.reserve(families.size() + 4);  // The references below stay valid.
  MetricFamily& done = Begin(families, "mlxcomm_operations_done_total", MetricType::Counter,
                             "Operations that this node's ranks completed.");
  MetricFamily& failed = Begin(families, "mlxcomm_operations_failed_total", MetricType::Counter,
                               "Operations that failed; each leaves its group failed.");
  MetricFamily& bytes = Begin(families, "mlxcomm_operation_bytes_total", MetricType::Counter,
                              "Bytes that one rank of this node passed to completed operations.");
  MetricFamily& duration =
      Begin(families, "mlxcomm_operation_duration_seconds", MetricType::Histogram,
            "Duration of completed operations, from the first local rank's call to the end.");
  for (std::size_t kind = 0; kind < OperationCounts::kKinds; ++kind) {
    for (std::size_t type = 0; type < OperationCounts::kTypes; ++type) {
      const OperationCounts::Counts counts = operations.Read(kind, type);
      if (counts.done == 0 && counts.failed == 0) continue;
      const Labels labels = {{"operation", OperationKindName(static_cast<OperationKind>(kind))},
                             {"dtype", DataTypeName(static_cast<DataType>(type))}};
      AddValue(done, labels, static_cast<double>(counts.done));
      AddValue(failed, labels, static_cast<double>(counts.failed));
      AddValue(bytes, labels, static_cast<double>(counts.bytes));
      ClientMetric metric = Metric(labels);
      std::uint64_t so_far = 0;
      for (std::size_t i = 0; i < OperationCounts::kBuckets; ++i) {
        so_far += counts.buckets[i];
        metric.histogram.bucket.push_back(
            {so_far, static_cast<double>(OperationCounts::BoundNs(i)) / 1e9});
      }
      // The total was read earlier than its parts, but must not be less.
      metric.histogram.sample_count = std::max(counts.done, so_far);
      metric.histogram.sample_sum = static_cast<double>(counts.duration_ns) / 1e9;
      duration.metric.push_back(std::move(metric));
    }
  }
}

}  // namespace

std::vector<MetricFamily> WriteMetricFamilies(const std::optional<LoopMetrics>& loop,
                                              const record::OperationCounts& operations) {
  Families families;
  AddValue(Begin(families, "mlxcomm_build_info", MetricType::Gauge, "Always 1."),
           {{"version", kSoftwareVersion}}, 1);
  Values add{families};
  add.Gauge("mlxcomm_engine_responsive",
            "0 if the engine did not answer in time; then most other metrics are missing.",
            loop ? 1 : 0);
  AddOperations(operations, families);
  if (!loop) return families;
  AddNode(loop->node, families);
  AddLinks(loop->node, families);
  AddRails(loop->node, families);
  MetricFamily& jobs = Begin(families, "mlxcomm_jobs", MetricType::Gauge,
                             "Jobs with ranks on this node, or waiting for them, by state.");
  for (const char* const state : {"forming", "running", "failed"}) {
    const auto found = loop->jobs.find(state);
    AddValue(jobs, {{"state", state}},
             found == loop->jobs.end() ? 0 : static_cast<double>(found->second));
  }
  MetricFamily& ended =
      Begin(families, "mlxcomm_jobs_ended_recently", MetricType::Gauge,
            "Jobs of this node's ranks that ended within the last ten minutes, by code.");
  for (const auto& [code, count] : loop->ended_jobs)
    AddValue(ended, {{"code", code}}, static_cast<double>(count));
  add.Count("mlxcomm_engine_wakeups_total", "How often the engine slept and was woken.",
            loop->wakeups);
  add.Count("mlxcomm_peer_violations_total",
            "Messages from nodes that no well-behaved daemon sends.", loop->violations);
  return families;
}

}  // namespace mlxcomm::metrics
