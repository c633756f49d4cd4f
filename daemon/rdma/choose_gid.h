// Chooses the GID that a queue pair uses.
//
// On Macs a device is found by its name, which states the cable's interface. Only GIDs that mirror
// an IPv4 address are known to carry data; that of the IPv6 link-local address has led to timeouts
// ([mlx 3467], [mlx 3468]). So the order is: the link's address if it is IPv4, another IPv4
// address, the link's address, any.
//
// On other systems the device is found by the link's address, and must use it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma {

bool MirrorsIpv4(const Gid& gid);
bool IsNamedAfterInterface(const std::string& device);
// Returns the index of the chosen GID, or nullopt if none qualifies.
std::optional<std::size_t> ChooseGid(std::span<const Gid> gids, const Gid& links, bool only_links);

}  // namespace mlxcomm::rdma
