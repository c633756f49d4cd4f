#include "daemon/metrics/metric_families.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

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

template <typename Number>
void AddOne(Families& families, const char* name, MetricType type, const char* help, Number value) {
  AddValue(Begin(families, name, type, help), {}, static_cast<double>(value));
}

void AddNode(const v1::NodeStatus& node, Families& families) {
  constexpr auto kGauge = MetricType::Gauge;
  constexpr auto kCounter = MetricType::Counter;
  AddOne(families, "mlxcomm_uptime_seconds", kGauge, "Since the daemon's start.",
         static_cast<double>(node.uptime_ms()) / 1e3);
  AddOne(families, "mlxcomm_draining", kGauge, "1 while the daemon refuses new jobs to stop.",
         node.state() == "draining" ? 1 : 0);
  AddOne(families, "mlxcomm_clients", kGauge, "Training processes that are attached.",
         node.use().clients());
  AddOne(families, "mlxcomm_clients_max", kGauge, "As many may be.", node.use().clients_max());
  AddOne(families, "mlxcomm_arena_bytes", kGauge,
         "Address space of arenas, those of processes that are ending included.",
         node.use().arena_bytes());
  AddOne(families, "mlxcomm_arena_bytes_max", kGauge, "As much may be.",
         node.use().arena_bytes_max());
  AddOne(families, "mlxcomm_operations_in_flight", kGauge, "Submitted and not completed.",
         node.use().operations());
  AddOne(families, "mlxcomm_operations_in_flight_max", kGauge, "As many may be.",
         node.use().operations_max());
  AddOne(families, "mlxcomm_groups", kGauge, "Jobs, splits, and failed ones not closed yet.",
         node.use().groups());
  AddOne(families, "mlxcomm_groups_max", kGauge, "As many may be.", node.use().groups_max());
  AddOne(families, "mlxcomm_memory_bytes", kGauge, "The daemon's own, arenas left out.",
         node.memory_bytes());
  AddOne(families, "mlxcomm_clients_refused_total", kCounter,
         "Local processes turned away: bad hello, wrong user, a limit.", node.clients_refused());
  AddOne(families, "mlxcomm_sessions_ended_for_garbage_total", kCounter,
         "Clients ended for what no client library writes.", node.sessions_ended_for_garbage());
  MetricFamily& ended =
      Begin(families, "mlxcomm_control_connections_ended_total", kCounter,
            "Control connections ended for what came on them, or for answers left unread.");
  for (std::size_t i = 1; i < guard::kEndReasons; ++i) {
    const char* const reason = guard::kEndReasonTexts[i].word;
    double count = 0;
    for (const v1::EndedConnections& reported : node.control_connections_ended()) {
      if (reported.reason() == reason) count = static_cast<double>(reported.count());
    }
    AddValue(ended, {{"reason", reason}}, count);
  }
  AddOne(families, "mlxcomm_strangers_refused_total", kCounter,
         "Connections to the peer port without proof of the key, or of another cluster.",
         node.strangers_refused());
  AddOne(families, "mlxcomm_nodes_linked", kGauge,
         "Neighbours: nodes with connections to this one.", node.nodes_linked());
  AddOne(families, "mlxcomm_nodes_linked_max", kGauge, "As many may be.", node.nodes_linked_max());
  AddOne(families, "mlxcomm_nodes_refused_total", kCounter,
         "Nodes that were refused, or have yielded their place, because there were too many.",
         node.nodes_refused());
  AddOne(families, "mlxcomm_combined_read_bytes_total", kCounter,
         "From memory, to combine or copy what local ranks pass.", node.combined_bytes_read());
  AddOne(families, "mlxcomm_combined_written_bytes_total", kCounter, "To memory, by the same.",
         node.combined_bytes_written());
}

// Addresses have ports that come and go, so a cable is named by its interfaces. Several rails over
// the same ones count as one.
struct Rails {
  double up = 0;
  double down = 0;
  double sent = 0;
  double received = 0;
  double copied = 0;
  double direct = 0;
  double round_trip_s = 0;  // The longest.
  double best = 0;
};

void AddRails(const v1::NodeStatus& node, Families& families) {
  std::map<Labels, Rails> rails;
  for (const v1::LinkStatus& link : node.links()) {
    for (const v1::RailStatus& rail : link.rails()) {
      // Other nodes choose their names; made printable here, so that no two become equal
      // afterwards.
      Rails& sum = rails[{{"peer", MakePrintable(link.peer())},
                          {"transport", WordOf(rail.transport())},
                          {"local_interface", rail.local_interface()},
                          {"remote_interface", MakePrintable(rail.remote_interface())}}];
      (rail.state() == v1::RailState::up ? sum.up : sum.down) += 1;
      sum.sent += static_cast<double>(rail.sent_bytes());
      sum.received += static_cast<double>(rail.received_bytes());
      sum.copied += static_cast<double>(rail.copied_bytes());
      sum.direct += static_cast<double>(rail.direct_bytes());
      sum.round_trip_s =
          std::max(sum.round_trip_s, static_cast<double>(rail.round_trip_ns()) / 1e9);
      sum.best += rail.delivery_bytes_per_second_best();
    }
  }
  const auto add = [&](const char* name, MetricType type, const char* help, double Rails::* value) {
    MetricFamily& family = Begin(families, name, type, help);
    for (const auto& [labels, sum] : rails) AddValue(family, labels, sum.*value);
  };
  add("mlxcomm_rails_up", MetricType::Gauge, "Rails that carry data.", &Rails::up);
  add("mlxcomm_rails_down", MetricType::Gauge, "Rails that are configured or were there.",
      &Rails::down);
  add("mlxcomm_rail_sent_bytes_total", MetricType::Counter, "Since the rail came up.",
      &Rails::sent);
  add("mlxcomm_rail_received_bytes_total", MetricType::Counter, "Since the rail came up.",
      &Rails::received);
  add("mlxcomm_rail_copied_bytes_total", MetricType::Counter,
      "Of those sent by side rails: copied first, headers included.", &Rails::copied);
  add("mlxcomm_rail_direct_bytes_total", MetricType::Counter,
      "Of those sent by side rails: sent directly from clients' memory.", &Rails::direct);
  add("mlxcomm_rail_round_trip_seconds", MetricType::Gauge,
      "Of the last heartbeat; 0: none has come back yet.", &Rails::round_trip_s);
  add("mlxcomm_rail_delivery_best_bytes_per_second", MetricType::Gauge,
      "What it has shown that it can carry; 0: it was never busy.", &Rails::best);
}

void AddLinks(const v1::NodeStatus& node, Families& families) {
  MetricFamily& up = Begin(families, "mlxcomm_link_up", MetricType::Gauge,
                           "1 where the neighbour is reached, directly or by others.");
  std::map<std::string, double> links;  // An address that leads to a known peer counts for it.
  std::map<std::string, double> frames_changed;
  for (const v1::LinkStatus& link : node.links()) {
    double& value = links[MakePrintable(link.peer())];
    if (link.state() == v1::LinkState::up) value = 1;
    frames_changed[MakePrintable(link.peer())] += static_cast<double>(link.changed_frames());
  }
  for (const auto& [peer, value] : links) AddValue(up, {{"peer", peer}}, value);
  MetricFamily& changed = Begin(
      families, "mlxcomm_link_changed_frames_total", MetricType::Counter,
      "Frames from the neighbour that were changed or lost on the way; they were sent again.");
  for (const auto& [peer, frames] : frames_changed) AddValue(changed, {{"peer", peer}}, frames);
}

void AddOperations(const record::OperationCounts& operations, Families& families) {
  using record::OperationCounts;
  MetricFamily done{"mlxcomm_operations_done_total",
                    "Operations that this node's ranks ended.",
                    MetricType::Counter,
                    {}};
  MetricFamily failed{"mlxcomm_operations_failed_total",
                      "Operations that failed; each leaves its group failed.",
                      MetricType::Counter,
                      {}};
  MetricFamily bytes{"mlxcomm_operation_bytes_total",
                     "What one rank of this node passed to those done.",
                     MetricType::Counter,
                     {}};
  MetricFamily duration{"mlxcomm_operation_duration_seconds",
                        "From the first local rank's call to the end, of those done.",
                        MetricType::Histogram,
                        {}};
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
      // Read a moment apart: the total may lag behind its parts, but must not be less.
      metric.histogram.sample_count = std::max(counts.done, so_far);
      metric.histogram.sample_sum = static_cast<double>(counts.duration_ns) / 1e9;
      duration.metric.push_back(std::move(metric));
    }
  }
  for (MetricFamily* const family : {&done, &failed, &bytes, &duration}) {
    families.push_back(std::move(*family));
  }
}

}  // namespace

std::vector<MetricFamily> WriteMetricFamilies(const std::optional<LoopMetrics>& loop,
                                              const record::OperationCounts& operations) {
  Families families;
  AddValue(Begin(families, "mlxcomm_build_info", MetricType::Gauge, "Always 1."),
           {{"version", kSoftwareVersion}}, 1);
  AddOne(families, "mlxcomm_engine_responsive", MetricType::Gauge,
         "0 where the engine did not answer in time; then most of the rest is missing.",
         loop ? 1 : 0);
  AddOperations(operations, families);
  if (!loop) return families;
  AddNode(loop->node, families);
  AddLinks(loop->node, families);
  AddRails(loop->node, families);
  MetricFamily& jobs = Begin(families, "mlxcomm_jobs", MetricType::Gauge,
                             "Jobs with ranks on this node, or that wait for them, by state.");
  for (const char* const state : {"forming", "running", "failed"}) {
    const auto found = loop->jobs.find(state);
    AddValue(jobs, {{"state", state}},
             found == loop->jobs.end() ? 0 : static_cast<double>(found->second));
  }
  MetricFamily& ended =
      Begin(families, "mlxcomm_jobs_ended_recently", MetricType::Gauge,
            "Jobs of this node's ranks that ended within the last ten minutes, by their code.");
  for (const auto& [code, count] : loop->ended_jobs)
    AddValue(ended, {{"code", code}}, static_cast<double>(count));
  AddOne(families, "mlxcomm_engine_wakeups_total", MetricType::Counter,
         "How often the engine slept and was woken.", loop->wakeups);
  AddOne(families, "mlxcomm_peer_violations_total", MetricType::Counter,
         "Messages from nodes that no well-behaved daemon sends.", loop->violations);
  return families;
}

}  // namespace mlxcomm::metrics
