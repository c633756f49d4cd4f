// Which ranks run on which host. Ranks are numbered through the list of hosts in its order; a host
// that is listed several times gets them all, over one connection.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/hosts/hostfile.h"

namespace mlxcomm::ctl {

struct PlacedRanks {
  std::string host;
  bool local = false;
  std::vector<unsigned> ranks;
};

// 127.0.0.1, ::1, localhost and this machine's own name need no ssh.
bool IsThisMachine(const std::string& host, const std::string& own_name);

// `per_host` 0: as many as each entry says. A host that has 0 takes no part, as in Open MPI.
std::vector<PlacedRanks> PlaceRanks(const std::vector<HostEntry>& hosts, unsigned per_host,
                                    const std::string& own_name);

}  // namespace mlxcomm::ctl
