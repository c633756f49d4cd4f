// Reads the hosts of `launch` from files of other programs, and from the command line:
//
//   MLX, a list      [{"ssh": "mac-1", "slots": 2}, ...]
//   MLX, an object   {"backend": "ring", "envs": ["A=1"], "hosts": [as above]}
//   MPI, DeepSpeed   mac-1 slots=2 max_slots=4     # and comments; node[01-04] is four hosts
//   by hand          mac-1,mac-2:2,node[01-04]     mac-2 has two ranks
//
// `slots` is the number of ranks; mlx.launch ignores it. MLX's other fields are ignored, because
// the daemons find their cables. At most kHostsMax hosts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

inline constexpr std::size_t kHostsMax = 4096;
inline constexpr unsigned kSlotsMax = 1024;

struct HostEntry {
  std::string name;    // The argument for ssh: "mac-1", "user@10.0.0.1".
  unsigned slots = 1;  // Number of ranks; 0: unused.
};

struct Hostfile {
  std::vector<std::string> envs;  // "NAME=VALUE".
  std::vector<HostEntry> hosts;
  std::string note;  // Lists the file's ignored settings, for the user.
};

// Returns whether a name is safe for ssh: neither an option nor anything that a shell interprets,
// because ssh's configuration may pass it to one (ProxyCommand's %h).
bool IsHostName(std::string_view name);
// INVALID_ARGUMENT names file and line or field, and what was expected.
Failure ReadHostfile(const std::string& path, Hostfile& file);
Failure ParseHostfile(const std::string& path, std::string_view text, Hostfile& file);
// Parses "a:2,b[1-3]"; `called` is its name in errors.
Failure ParseHostList(const std::string& called, std::string_view text, Hostfile& file);

// The ranks of a host. Ranks are numbered in the order of the list; a host that is listed several
// times gets all its ranks over one connection.
struct PlacedRanks {
  std::string host;
  bool local = false;
  std::vector<unsigned> ranks;
};

// `per_host` 0: as many ranks as each entry says. A host with 0 is unused, as in Open MPI.
std::vector<PlacedRanks> PlaceRanks(const std::vector<HostEntry>& hosts, unsigned per_host,
                                    const std::string& own_name);

}  // namespace mlxcomm::ctl
