#include "client/ctl/link_loads.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace mlxcomm::ctl {
namespace {

// Ports tell the connections of an interface apart, and a new one from the old.
using RailKey = std::tuple<std::string, std::string, std::string, std::string>;
using SentBytes = std::map<RailKey, std::uint64_t>;

bool IsCable(const v1::RailStatus& rail) {
  return rail.state() == "up" && rail.transport() != "route";
}

RailKey KeyOf(const v1::NodeStatus& node, const v1::LinkStatus& link, const v1::RailStatus& rail) {
  return {node.name(), link.peer(), rail.local_address(), rail.remote_address()};
}

std::optional<LinkLoad> LoadOf(const v1::NodeStatus& node, const v1::LinkStatus& link,
                               const SentBytes& before) {
  LinkLoad load{.from = node.name(), .to = link.peer()};
  bool any = false;
  for (const v1::RailStatus& rail : link.rails()) {
    if (!IsCable(rail)) continue;
    const auto found = before.find(KeyOf(node, link, rail));
    if (found == before.end() || found->second > rail.sent_bytes()) return std::nullopt;
    load.bytes += static_cast<double>(rail.sent_bytes() - found->second);
    load.best_bytes_per_second += rail.delivery_bytes_per_second_best();
    any = true;
  }
  return any ? std::optional(std::move(load)) : std::nullopt;
}

}  // namespace

std::vector<LinkLoad> LoadsBetween(const v1::StatusReply& before, const v1::StatusReply& after,
                                   double operations, double nanoseconds_each) {
  std::vector<LinkLoad> loads;
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
      std::optional<LinkLoad> load = LoadOf(node, link, sent);
      if (!load) continue;
      load->bytes /= operations;
      load->bytes_per_second = load->bytes * 1e9 / nanoseconds_each;
      loads.push_back(*std::move(load));
    }
  }
  return loads;
}

}  // namespace mlxcomm::ctl
