#include "client/ctl/render_ping.h"

#include <algorithm>
#include <cstdio>

#include <google/protobuf/struct.pb.h>

#include "client/ctl/json_text.h"
#include "client/ctl/quantities.h"
#include "client/ctl/render_status.h"

namespace mlxcomm::ctl {
namespace {

struct Summary {
  std::size_t sent = 0;
  std::size_t came_back = 0;
  std::uint64_t min_ns = 0;
  std::uint64_t max_ns = 0;
  std::uint64_t mean_ns = 0;
};

Summary Sum(std::span<const v1::PingReply> replies) {
  Summary sum;
  sum.sent = replies.size();
  std::uint64_t total_ns = 0;
  for (const v1::PingReply& reply : replies) {
    if (reply.round_trip_ns() == 0) continue;
    sum.min_ns = sum.came_back == 0 ? reply.round_trip_ns()
                                    : std::min(sum.min_ns, reply.round_trip_ns());
    sum.max_ns = std::max(sum.max_ns, reply.round_trip_ns());
    total_ns += reply.round_trip_ns();
    ++sum.came_back;
  }
  if (sum.came_back > 0) sum.mean_ns = total_ns / sum.came_back;
  return sum;
}

}  // namespace

std::string RenderPing(std::uint32_t number, const v1::PingReply& reply) {
  const std::string begin = Shown(reply.node()) + "  " + std::to_string(number) + "  ";
  if (reply.round_trip_ns() == 0) return begin + "lost: it " + Shown(reply.why_not()) + "\n";
  return begin + HumanNanoseconds(reply.round_trip_ns()) + "\n";
}

std::string RenderPings(std::span<const v1::PingReply> replies) {
  if (replies.empty()) return {};
  const Summary sum = Sum(replies);
  char loss[32];
  std::snprintf(loss, sizeof loss, "%.0f%%",
                100.0 * static_cast<double>(sum.sent - sum.came_back) / static_cast<double>(sum.sent));
  std::string out = Shown(replies.back().node()) + ": " + std::to_string(sum.came_back) + " of " +
                    std::to_string(sum.sent) + " came back, " + loss + " lost";
  if (sum.came_back > 0) {
    out += "; round trip " + HumanNanoseconds(sum.min_ns) + " at best, " +
           HumanNanoseconds(sum.mean_ns) + " on average, " + HumanNanoseconds(sum.max_ns) +
           " at worst";
  }
  out += "\n";
  const v1::LinkStatus& link = replies.back().link();
  if (!link.detail().empty()) out += "  " + Shown(link.detail()) + "\n";
  for (const v1::RailStatus& rail : link.rails()) {
    const std::string ends =
        rail.transport() == "route"
            ? "through other nodes"
            : Shown(rail.local_interface()) + " - " + Shown(rail.remote_interface());
    out += "  " + Shown(rail.transport()) + " " + ends + "  " + Shown(rail.state());
    if (rail.round_trip_ns() > 0) {
      out += "  last heartbeat " + HumanNanoseconds(rail.round_trip_ns());
      if (rail.round_trip_ns_min() > 0) {
        out += ", shortest " + HumanNanoseconds(rail.round_trip_ns_min());
      }
    }
    if (!rail.detail().empty()) out += "  " + Shown(rail.detail());
    out += "\n";
  }
  return out;
}

std::string PingsAsJson(std::span<const v1::PingReply> replies) {
  const Summary sum = Sum(replies);
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  fields["node"].set_string_value(replies.empty() ? "" : replies.back().node());
  fields["sent"].set_number_value(static_cast<double>(sum.sent));
  fields["came_back"].set_number_value(static_cast<double>(sum.came_back));
  fields["round_trip_ns_min"].set_number_value(static_cast<double>(sum.min_ns));
  fields["round_trip_ns_mean"].set_number_value(static_cast<double>(sum.mean_ns));
  fields["round_trip_ns_max"].set_number_value(static_cast<double>(sum.max_ns));
  auto& all = *fields["round_trips_ns"].mutable_list_value();
  for (const v1::PingReply& reply : replies) {
    if (reply.round_trip_ns() == 0) {
      all.add_values()->set_null_value(google::protobuf::NULL_VALUE);
    } else {
      all.add_values()->set_number_value(static_cast<double>(reply.round_trip_ns()));
    }
  }
  auto& rails = *fields["rails"].mutable_list_value();
  if (!replies.empty()) {
    for (const v1::RailStatus& rail : replies.back().link().rails()) {
      auto& told = *rails.add_values()->mutable_struct_value()->mutable_fields();
      told["transport"].set_string_value(rail.transport());
      told["local_interface"].set_string_value(rail.local_interface());
      told["remote_interface"].set_string_value(rail.remote_interface());
      told["state"].set_string_value(rail.state());
      told["round_trip_ns"].set_number_value(static_cast<double>(rail.round_trip_ns()));
      told["round_trip_ns_min"].set_number_value(static_cast<double>(rail.round_trip_ns_min()));
    }
  }
  std::string text;
  return ToJson(object, text).ok() ? text : "{}\n";
}

}  // namespace mlxcomm::ctl
