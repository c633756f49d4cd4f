// Which of a port's GIDs a queue pair uses.
//
// On Macs a device is found by its name, which says whose cable it is on;
// its GIDs are another matter.
// What is known to carry data are those that mirror an IPv4 address, which the port has some time after
// its interface has one; that of the IPv6 link-local address, which stands first, has been seen to end
// in a timeout ([mlx 3467], [mlx 3468]), and need not be the address that connections use. So the order
// is: the link's address if that is IPv4's, another of IPv4, the link's, any. Each side chooses its own,
// and tells it with its queue pair.
//
// Other systems' devices are found by the link's address, and have to use that.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma {

bool MirrorsIpv4(const Gid& gid);
// A device that is called after its interface (apple::kDevicePrefix).
bool IsNamedAfterInterface(const std::string& device);
// Index of it; nullopt: there is none.
std::optional<std::size_t> ChooseGid(std::span<const Gid> gids, const Gid& links, bool only_links);

}  // namespace mlxcomm::rdma
