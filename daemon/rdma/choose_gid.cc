#include "daemon/rdma/choose_gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace mlxcomm::rdma {

bool MirrorsIpv4(const Gid& gid) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), gid.begin());
}

std::string GidText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  if (MirrorsIpv4(gid)) {
    ::inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

bool IsNamedAfterInterface(const std::string& device) {
  return device.starts_with(apple::kDevicePrefix);
}

std::optional<std::size_t> ChooseGid(std::span<const Gid> gids, const Gid& links, bool only_links) {
  const auto index_of = [&](auto found) -> std::optional<std::size_t> {
    if (found == gids.end()) return std::nullopt;
    return static_cast<std::size_t>(found - gids.begin());
  };
  const auto its = index_of(std::ranges::find(gids, links));
  if (only_links || (its.has_value() && MirrorsIpv4(links))) return its;
  if (const auto any = index_of(std::ranges::find_if(gids, MirrorsIpv4))) return any;
  if (its.has_value() || gids.empty()) return its;
  return 0;
}

}  // namespace mlxcomm::rdma
