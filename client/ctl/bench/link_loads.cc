#include "client/ctl/bench/link_loads.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

// Addresses include ports, so an interface's old and new connections have different keys.
using RailKey = std::tuple<std::string, std::string, std::string, std::string>;
using SentBytes = std::map<RailKey, std::uint64_t>;

struct Span {
  double operations = 0;
  double nanoseconds_each = 0;
  double per_second() const { return 1e9 / nanoseconds_each; }  // Operations.
};

bool IsCable(const v1::RailStatus& rail) {
  return rail.state() == v1::RailState::up && rail.transport() != v1::Transport::route;
}

RailKey KeyOf(const v1::NodeStatus& node, const v1::LinkStatus& link, const v1::RailStatus& rail) {
  return {node.name(), link.peer(), rail.local_address(), rail.remote_address()};
}

v1::BenchRail& KindIn(v1::BenchLink& load, const std::string& transport) {
  for (v1::BenchRail& kind : *load.mutable_rails()) {
    if (kind.transport() == transport) return kind;
  }
  v1::BenchRail& kind = *load.add_rails();
  kind.set_transport(transport);
  return kind;
}

struct Cable {
  double best_bytes_per_second = 0;
  double bytes = 0;
  bool shared = false;  // Rails of two kinds share it.
};

std::optional<v1::BenchLink> LoadOf(const v1::NodeStatus& node, const v1::LinkStatus& link,
                                    const SentBytes& before, const Span& span) {
  v1::BenchLink load;
  load.set_from(node.name());
  load.set_to(link.peer());
  std::map<std::pair<std::string, std::string>, Cable> cables;
  for (const v1::RailStatus& rail : link.rails()) {
    if (!IsCable(rail)) continue;
    const auto found = before.find(KeyOf(node, link, rail));
    if (found == before.end() || found->second > rail.sent_bytes()) return std::nullopt;
    const double bytes = static_cast<double>(rail.sent_bytes() - found->second) / span.operations;
    const double best = rail.delivery_bytes_per_second_best();
    load.set_bytes_per_operation(load.bytes_per_operation() + bytes);
    v1::BenchRail& kind = KindIn(load, WordOf(rail.transport()));
    kind.set_bytes_per_operation(kind.bytes_per_operation() + bytes);
    kind.set_best_bytes_per_second(kind.best_bytes_per_second() + best);
    // A connection without an interface counts as a cable of its own.
    const std::string& local =
        rail.local_interface().empty() ? rail.local_address() : rail.local_interface();
    Cable& cable = cables[{local, rail.remote_interface()}];
    cable.shared = cable.shared || IsBeside(rail.transport());
    cable.bytes += bytes;
    cable.best_bytes_per_second = std::max(cable.best_bytes_per_second, best);
  }
  if (cables.empty()) return std::nullopt;
  load.set_bytes_per_second(load.bytes_per_operation() * span.per_second());
  for (v1::BenchRail& kind : *load.mutable_rails()) {
    kind.set_bytes_per_second(kind.bytes_per_operation() * span.per_second());
  }
  std::sort(load.mutable_rails()->begin(), load.mutable_rails()->end(),
            [](const auto& a, const auto& b) { return a.transport() < b.transport(); });
  double best = 0;
  for (const auto& [ends, cable] : cables) {
    const double now = cable.shared ? cable.bytes * span.per_second() : 0;
    best += std::max(cable.best_bytes_per_second, now);
  }
  load.set_best_bytes_per_second(best);
  load.set_fraction_of_best(best <= 0 ? 0 : load.bytes_per_second() / best);
  return load;
}

}  // namespace

std::vector<v1::BenchLink> LoadsBetween(const v1::StatusReply& before, const v1::StatusReply& after,
                                        double operations, double nanoseconds_each) {
  std::vector<v1::BenchLink> loads;
  if (operations <= 0 || nanoseconds_each <= 0) return loads;
  SentBytes sent;
  for (const v1::NodeStatus& node : before.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (IsCable(rail)) sent[KeyOf(node, link, rail)] = rail.sent_bytes();
      }
    }
  }
  for (const v1::NodeStatus& node : after.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      std::optional<v1::BenchLink> load = LoadOf(node, link, sent, {operations, nanoseconds_each});
      if (load) loads.push_back(*std::move(load));
    }
  }
  return loads;
}

}  // namespace mlxcomm::ctl
