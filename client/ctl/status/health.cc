#include "client/ctl/status/health.h"

#include <algorithm>
#include <utility>

#include "client/ctl/cli/quantities.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kOtherHalfMs = 2000;  // Usually all ranks of a job have joined by then.

// A cable that is down, of a link that is still up; empty: none.
std::string PulledCable(const v1::StatusReply& status) {
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.state() == v1::RailState::up || IsBeside(rail.transport())) continue;
        const std::string& at =
            rail.local_interface().empty() ? rail.remote_address() : rail.local_interface();
        return "link " + node.name() + " to " + link.peer() +
               (IsRouted(link) ? " goes through other nodes: " : " is slower than it could be: ") +
               at + " is down: check its cable at both ends";
      }
    }
  }
  return {};
}

// A neighbour that is heard but not linked, or a reason why none is heard.
std::string Unlinked(const v1::StatusReply& status) {
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::DiscoveredNeighbour& heard : node.discovery().neighbours()) {
      if (heard.state() != "heard" || IsLinked(node, heard.id())) continue;
      return "node " + node.name() + " hears " + heard.name() + " on " + heard.local_interface() +
             ", but is not linked to it: mlxcommctl doctor says more";
    }
  }
  for (const v1::NodeStatus& node : status.nodes()) {
    if (const std::string names = InterfacesWithoutIpv6(node); !names.empty()) {
      return "node " + node.name() + " cannot find neighbours: IPv6 is off on " + names +
             " (mlxcommctl doctor)";
    }
  }
  if (status.nodes_size() == 1 && status.nodes(0).discovery().foreign() > 0) {
    return "node " + status.nodes(0).name() +
           " hears only other clusters: check its key and cluster name (mlxcommctl doctor)";
  }
  return {};
}

// Prefers a link with a cause of its own to one that goes through other nodes.
std::string LinkThatIsDown(const v1::StatusReply& status) {
  std::string first;
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      if (link.state() == v1::LinkState::up) continue;
      const bool consequence = GoesThroughOthers(link.reason());
      if (consequence && !first.empty()) continue;
      const LinkCause cause = CauseOf(link);
      first =
          "link " + node.name() + " to " + link.peer() +
          (link.state() == v1::LinkState::grace ? " is down, jobs wait for it"
                                                : " is " + WordOf(link.state())) +
          (cause.reason == v1::LinkReason::same_id ? ": " + cause.detail + " (mlxcommctl doctor)"
           : IsOfAnotherKey(cause.reason)
               ? ": " + cause.detail + " (mlxcommctl doctor says which side to change)"
               : ": check the cable, and that mlxcommd runs there");
      if (!consequence) return first;
    }
  }
  return first;
}

std::string TwoWithOneId(const v1::StatusReply& status) {
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      if (!link.has_same_id_ms_ago() || link.same_id_ms_ago() >= kRecentMs) continue;
      return "another machine, at " + link.same_id_at() + ", also has the node id of " +
             link.peer() + ": mlxcommctl doctor says what to do";
    }
  }
  return {};
}

// Without a key, a node and its neighbours cannot find each other. A private daemon needs none.
bool IsAloneWithoutKey(const v1::StatusReply& status) {
  if (status.nodes_size() != 1) return false;
  const v1::NodeStatus& node = status.nodes(0);
  return node.answered() && node.cluster_keys_size() == 0 && node.links_size() == 0 &&
         !node.has_discovery() && !node.ends_with_last_client();
}

std::string Draining(const v1::StatusReply& status) {
  for (const v1::NodeStatus& node : status.nodes()) {
    if (!node.has_drain()) continue;
    return "node " + node.name() + " is draining, " + DrainText(node.drain()) +
           ": it takes no new jobs until its mlxcommd is started again";
  }
  return {};
}

std::string RefusesToRestart(const v1::StatusReply& status) {
  for (const v1::NodeStatus& node : status.nodes()) {
    const v1::RestartStatus& restart = node.restart();
    if (!IsRefused(restart)) continue;
    return "node " + node.name() + " refused to restart: " + restart.refused() +
           ": fix that, then run mlxcommctl service restart there, or mlxcommctl service restart "
           "--cancel";
  }
  return {};
}

std::string StillForming(const v1::StatusReply& status) {
  std::uint64_t forming = 0;
  std::string first;
  for (const v1::JobStatus& job : status.jobs()) {
    if (const std::string other_half = OtherHalf(job); !other_half.empty()) return other_half;
    if (job.state() != "forming" || forming++ > 0) continue;
    first = job.name() + (job.detail().empty() ? " forms" : " " + job.detail());
  }
  if (forming == 0) return {};
  return Plural(forming, "job") + (forming == 1 ? " is" : " are") + " still forming: " + first;
}

// These reasons describe what answers now, which matters more than how the link ended.
bool DescribesPeer(v1::LinkReason::Value reason) {
  return IsOfAnotherKey(reason) || reason == v1::LinkReason::version_too_far ||
         reason == v1::LinkReason::not_a_daemon || reason == v1::LinkReason::own_node ||
         reason == v1::LinkReason::same_id;
}

}  // namespace

std::string OtherHalf(const v1::JobStatus& job) {
  const auto waits_long = [](const v1::RankStatus& rank) {
    return rank.operation_age_ms() >= kOtherHalfMs;
  };
  return std::ranges::any_of(job.ranks(), waits_long) ? job.other_half() : "";
}

std::string LongAwaited(const v1::JobStatus& job) {
  std::string late;
  for (const v1::WaitStatus& wait : job.waits()) {
    if (wait.age_ms() < kLongMs) continue;
    for (const v1::RankStatus& rank : job.ranks()) {
      const bool awaited = std::ranges::find(wait.awaited(), rank.rank()) != wait.awaited().end();
      if (!awaited || rank.operation() == wait.operation()) continue;
      const std::string pid = std::to_string(rank.pid());
      const std::string waits = "job " + job.name() + " has waited " + HumanTime(wait.age_ms()) +
                                " for rank " + std::to_string(rank.rank());
      if (rank.stopped())
        return waits + ", which is stopped: kill -CONT " + pid + " on " + rank.node() +
               " lets it continue";
      if (late.empty()) late = waits + ": check pid " + pid + " on " + rank.node();
    }
  }
  return late;
}

bool HasFailed(const v1::EndedJob& job) { return !job.code().empty() && job.code() != "CANCELLED"; }

std::string HowItFailed(const v1::EndedJob& job) {
  std::string text = "failed " + HumanTime(job.ended_ms_ago()) + " ago: " + job.code();
  if (job.has_rank()) {
    text += " rank " + std::to_string(job.rank()) + " (" + job.node() + ", pid " +
            std::to_string(job.pid()) + ")";
  }
  return text;
}

const v1::NodeStatus& NodeNamed(const v1::StatusReply& status, const std::string& name) {
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.name() == name) return node;
  }
  return v1::NodeStatus::default_instance();
}

const v1::NodeStatus& OwnNode(const v1::StatusReply& status) {
  return NodeNamed(status, status.node());
}

std::string DrainText(const v1::DrainStatus& drain) {
  const std::uint64_t seconds = (drain.left_ms() + 999) / 1000;
  const std::string left =
      seconds < 60 ? std::to_string(seconds) + " s" : HumanTime(1000 * seconds);
  return Plural(drain.jobs(), "job") + ", " + left + " left";
}

bool IsRefused(const v1::RestartStatus& restart, std::uint64_t recent_ms) {
  return !restart.refused().empty() && restart.refused_ms_ago() < recent_ms;
}

std::string RestartText(const v1::RestartStatus& restart) {
  if (!restart.refused().empty()) return "its restart was refused";
  const std::string next = "restarts as " + restart.release();
  if (restart.clients() == 0) return next + " now";
  return next + " once " + Plural(restart.clients(), "client") +
         (restart.clients() == 1 ? " has ended" : " have ended");
}

std::string InterfacesWithoutIpv6(const v1::NodeStatus& node) {
  std::string names;
  for (const v1::DiscoveryInterface& interface : node.discovery().interfaces()) {
    if (interface.used()) return {};
    if (interface.reason() != v1::DiscoveryReason::no_link_local) continue;
    names += (names.empty() ? "" : ", ") + interface.name();
  }
  return names;
}

bool IsLinked(const v1::NodeStatus& node, const std::string& id) {
  return std::ranges::find(node.links(), id, &v1::LinkStatus::peer_id) != node.links().end();
}

bool IsRouted(const v1::LinkStatus& link) {
  return std::ranges::any_of(link.rails(), [](const v1::RailStatus& rail) {
    return rail.transport() == v1::Transport::route && rail.state() == v1::RailState::up;
  });
}

Health HealthOf(const v1::StatusReply& status) {
  const auto bad = [](std::string text) { return Health{false, std::move(text)}; };
  for (const v1::NodeStatus& node : status.nodes()) {
    // A link that is down may be why it does not answer.
    if (!node.answered() && LinkThatIsDown(status).empty()) {
      return bad("node " + node.name() + " does not answer: check its mlxcommd");
    }
  }
  if (const std::string twins = TwoWithOneId(status); !twins.empty()) return bad(twins);
  if (const std::string down = LinkThatIsDown(status); !down.empty()) return bad(down);
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.state() == "failed") return bad("job " + job.name() + " has failed: " + job.detail());
    if (!job.circle().empty()) return bad(job.circle());
    if (const std::string awaited = LongAwaited(job); !awaited.empty()) return bad(awaited);
  }
  for (const auto find : {Draining, RefusesToRestart, Unlinked, PulledCable, StillForming}) {
    if (const std::string found = find(status); !found.empty()) return bad(found);
  }
  const auto failed =
      static_cast<std::uint64_t>(std::ranges::count_if(status.ended_jobs(), HasFailed));
  if (failed > 0) {
    return bad(Plural(failed, "job") +
               " failed within the last 10 minutes: mlxcommctl events shows what happened before");
  }
  if (IsAloneWithoutKey(status)) {
    return {true,
            "all is well, but this node is alone: it has no key (mlxcommctl cluster create, or "
            "join)"};
  }
  return {true, "all is well"};
}

bool IsOfAnotherKey(v1::LinkReason::Value reason) {
  return reason == v1::LinkReason::wrong_key || reason == v1::LinkReason::wrong_cluster ||
         reason == v1::LinkReason::not_proved;
}

LinkCause CauseOf(const v1::LinkStatus& link) {
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.state() != v1::RailState::up && DescribesPeer(rail.reason()))
      return {rail.reason(), rail.detail()};
  }
  return {link.reason(), link.detail()};
}

}  // namespace mlxcomm::ctl
