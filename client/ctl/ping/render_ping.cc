#include "client/ctl/ping/render_ping.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

struct RoundTrips {
  std::size_t count = 0;
  std::uint64_t min_ns = 0;
  std::uint64_t max_ns = 0;
  std::uint64_t total_ns = 0;

  void Add(std::uint64_t round_trip_ns) {
    min_ns = count == 0 ? round_trip_ns : std::min(min_ns, round_trip_ns);
    max_ns = std::max(max_ns, round_trip_ns);
    total_ns += round_trip_ns;
    ++count;
  }
  std::uint64_t mean_ns() const { return count == 0 ? 0 : total_ns / count; }
  std::string Text() const {
    return "min/avg/max " + HumanNanoseconds(min_ns) + " / " + HumanNanoseconds(mean_ns()) + " / " +
           HumanNanoseconds(max_ns);
  }
};

RoundTrips OfPings(std::span<const v1::PingReply> replies) {
  RoundTrips all;
  for (const v1::PingReply& reply : replies) {
    if (reply.round_trip_ns() != 0) all.Add(reply.round_trip_ns());
  }
  return all;
}

}  // namespace

std::string RenderPing(std::uint32_t number, const v1::PingReply& reply) {
  const std::string begin = Shown(reply.node()) + "  " + std::to_string(number) + "  ";
  if (reply.round_trip_ns() == 0) return begin + "lost: it " + Shown(reply.why_not()) + "\n";
  return begin + HumanNanoseconds(reply.round_trip_ns()) + "\n";
}

std::string RenderPings(std::span<const v1::PingReply> replies) {
  if (replies.empty()) return {};
  const RoundTrips back = OfPings(replies);
  const double lost = static_cast<double>(replies.size() - back.count);
  std::string out = absl::StrFormat("%s: %d of %d came back, %.0f%% lost",
                                    Shown(replies.back().node()), back.count, replies.size(),
                                    100.0 * lost / static_cast<double>(replies.size()));
  if (back.count > 0) out += "; round trip " + back.Text();
  out += "\n";
  const v1::LinkStatus& link = replies.back().link();
  if (!link.detail().empty()) out += "  " + Shown(link.detail()) + "\n";
  for (const v1::RailStatus& rail : link.rails()) {
    const std::string ends =
        rail.transport() == v1::Transport::route
            ? "through other nodes"
            : Shown(rail.local_interface()) + " - " + Shown(rail.remote_interface());
    out += "  " + WordOf(rail.transport()) + " " + ends + "  " + WordOf(rail.state());
    if (rail.round_trip_ns() > 0) {
      out += "  round trip " + HumanNanoseconds(rail.round_trip_ns());
    }
    if (rail.round_trip_ns_min() > 0)  // Unknown of routes.
      out += ", shortest ever " + HumanNanoseconds(rail.round_trip_ns_min());
    if (!rail.detail().empty()) out += "  " + Shown(rail.detail());
    out += "\n";
  }
  return out;
}

std::string PingsAsJson(std::span<const v1::PingReply> replies) {
  const RoundTrips back = OfPings(replies);
  v1::PingReport report;
  report.set_sent(static_cast<std::uint32_t>(replies.size()));
  report.set_came_back(static_cast<std::uint32_t>(back.count));
  report.set_round_trip_ns_min(static_cast<double>(back.min_ns));
  report.set_round_trip_ns_mean(static_cast<double>(back.mean_ns()));
  report.set_round_trip_ns_max(static_cast<double>(back.max_ns));
  for (const v1::PingReply& reply : replies) {
    google::protobuf::Value& one = *report.add_round_trips_ns();
    one.set_null_value(google::protobuf::NULL_VALUE);
    if (reply.round_trip_ns() != 0)
      one.set_number_value(static_cast<double>(reply.round_trip_ns()));
  }
  if (!replies.empty()) {
    report.set_node(replies.back().node());
    for (const v1::RailStatus& rail : replies.back().link().rails()) {
      v1::PingedRail& reported = *report.add_rails();
      reported.set_transport(WordOf(rail.transport()));
      reported.set_local_interface(rail.local_interface());
      reported.set_remote_interface(rail.remote_interface());
      reported.set_state(WordOf(rail.state()));
      reported.set_round_trip_ns(static_cast<double>(rail.round_trip_ns()));
      reported.set_round_trip_ns_min(static_cast<double>(rail.round_trip_ns_min()));
    }
  }
  return JsonOf(std::move(report));
}

}  // namespace mlxcomm::ctl
