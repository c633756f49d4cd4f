#include "daemon/discovery/interface_choice.h"

#include <fnmatch.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace mlxcomm::discovery {
namespace {

struct Kind {
  std::string_view what;
  std::vector<std::string_view> prefixes;
};

// The name is the only sign of what an interface is for.
const std::vector<Kind> kLeftOut = {
    {"a tunnel",
     {"utun", "ipsec", "gif", "stf", "tun", "tap", "wg", "sit", "ip6tnl", "tailscale", "zt"}},
    {"wireless, from device to device", {"awdl", "llw"}},
    {"a wireless access point", {"ap"}},
    {"the system's own", {"anpi", "dummy"}},
    {"used by containers", {"docker", "br-", "veth", "cni"}},
    {"used by virtual machines", {"virbr", "vnet", "vmnet", "vmenet"}},
};

}  // namespace

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
    const bool allowed = std::ranges::any_of(patterns, [&](const auto& pattern) {
      return fnmatch(pattern.c_str(), interface.name.c_str(), 0) == 0;
    });
    if (!allowed) return {Reason::not_asked_for, "not among discovery { interfaces }"};
  } else {
    for (const Kind& kind : kLeftOut) {
      const bool is_one = std::ranges::any_of(kind.prefixes, [&](std::string_view prefix) {
        return interface.name.starts_with(prefix);
      });
      if (is_one) return unless_named(kind.what);
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
