// Lists of hosts in the formats of other programs:
//
//   MLX, a list      [{"ssh": "mac-1", "ips": ["10.0.0.1"], "rdma": [null, "rdma_en2"]}, ...]
//   MLX, an object   {"backend": "ring", "envs": ["A=1"], "hosts": [as above]}
//   MPI, DeepSpeed   mac-1 slots=2 max_slots=4     # and comments; node[01-04] is four hosts
//   by hand          mac-1,mac-2:2,node[01-04]     mac-2 has two ranks
//
// `rdma` lists the devices that lead to each other host; where MLX would use them (`jaccl`,
// `jaccl-ring`) they must be as it requires.
//
// Our own file of hosts is MLX's object with `slots` (how many ranks) in a host, which mlx.launch
// ignores; so each program reads the other's.
//
// Memory: the hosts, at most kHostsMax.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

inline constexpr std::size_t kHostsMax = 4096;
inline constexpr unsigned kSlotsMax = 1024;

struct HostEntry {
  std::string name;  // The argument for ssh: "mac-1", "user@10.0.0.1".
  std::vector<std::string> ips;
  std::vector<std::vector<std::string>> rdma;  // By rank: devices towards it; none: null.
  unsigned slots = 1;                          // How many ranks; 0: it takes no part.
};

struct Hostfile {
  std::string backend;            // MLX's word: "ring", "jaccl", "jaccl-ring", "mpi", "nccl".
  std::vector<std::string> envs;  // "NAME=VALUE".
  std::vector<HostEntry> hosts;
  std::string note;  // For the user: which settings of the file mean nothing here; mostly empty.
};

// A name for ssh: not an option, and nothing that a shell interprets, because ssh's own
// configuration may pass it to one (ProxyCommand's %h; OpenSSH refuses it itself since 9.6).
bool IsHostName(std::string_view name);
// INVALID_ARGUMENT with file and line or field, and what was expected there.
Failure ReadHostfile(const std::string& path, Hostfile& file);
Failure ParseHostfile(const std::string& path, std::string_view text, Hostfile& file);
// "a:2,b[1-3]"; errors use the caller's name for it.
Failure ParseHostList(const std::string& called, std::string_view text, Hostfile& file);
// Our own file, which MLX reads as well (HostList of ctl.proto).
std::string HostfileJson(const Hostfile& file);

// Which ranks run on which host. Ranks are numbered through the list of hosts in its order; a host
// that is listed several times gets them all, over one connection.
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
