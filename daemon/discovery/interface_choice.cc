#include "daemon/discovery/interface_choice.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace mlxcomm::discovery {
namespace {

struct Kind {
  std::string_view prefix;
  std::string_view what;
};

// The name is the only sign of what an interface is for.
constexpr std::array<Kind, 24> kLeftOut = {{
    {"utun", "a tunnel"},
    {"ipsec", "a tunnel"},
    {"gif", "a tunnel"},
    {"stf", "a tunnel"},
    {"tun", "a tunnel"},
    {"tap", "a tunnel"},
    {"wg", "a tunnel"},
    {"sit", "a tunnel"},
    {"ip6tnl", "a tunnel"},
    {"tailscale", "a tunnel"},
    {"zt", "a tunnel"},
    {"awdl", "wireless, from device to device"},
    {"llw", "wireless, from device to device"},
    {"ap", "a wireless access point"},
    {"anpi", "the system's own"},
    {"dummy", "the system's own"},
    {"docker", "used by containers"},
    {"br-", "used by containers"},
    {"veth", "used by containers"},
    {"cni", "used by containers"},
    {"virbr", "used by virtual machines"},
    {"vnet", "used by virtual machines"},
    {"vmnet", "used by virtual machines"},
    {"vmenet", "used by virtual machines"},
}};

}  // namespace

// Backtracking to the last star is enough.
bool MatchesPattern(std::string_view name, std::string_view pattern) {
  std::size_t at = 0;
  std::size_t in_pattern = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_at = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      star_at = at;
    } else if (in_pattern < pattern.size() &&
               (pattern[in_pattern] == '?' || pattern[in_pattern] == name[at])) {
      ++at;
      ++in_pattern;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++star_at;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

InterfaceFault WhyNotUsed(const platform::NetworkInterface& interface,
                          const std::vector<std::string>& patterns) {
  using Reason = v1::DiscoveryReason;
  const auto unless_named = [](std::string_view what) {
    return InterfaceFault{
        Reason::unless_named,
        absl::StrCat(std::string(what), "; name it in discovery { interfaces } to use it")};
  };
  if (interface.loopback) return {Reason::loopback, "loopback"};
  if (!patterns.empty()) {
    const bool allowed = std::ranges::any_of(
        patterns, [&](const auto& pattern) { return MatchesPattern(interface.name, pattern); });
    if (!allowed) return {Reason::not_asked_for, "not among discovery { interfaces }"};
  } else {
    for (const Kind& kind : kLeftOut) {
      if (std::string_view(interface.name).starts_with(kind.prefix)) return unless_named(kind.what);
    }
    if (interface.point_to_point) return unless_named("a tunnel");
  }
  if (interface.bridge_member)
    return {Reason::bridge_member, "a member of a bridge, which receives its frames"};
  if (!interface.running) return {Reason::interface_down, "down, or nothing is plugged in"};
  if (!interface.multicast) return {Reason::no_multicast, "it has no multicast"};
  if (!platform::LinkLocalAddressOf(interface))
    return {Reason::no_link_local, "it has no IPv6 link-local address"};
  return {};
}

}  // namespace mlxcomm::discovery
