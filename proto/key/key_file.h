// The file that holds the cluster's key on each machine: the daemon reads it, mlxcommctl
// makes and changes it.
//
//   cluster NAME        where the key came with a name
//   64 hex digits       the current key
//   64 hex digits       the previous one, while the key is being changed
//
// `openssl rand -hex 32` makes one, too. Only its owner may read or write it, for who holds
// the key is a node. It is written aside and put in place whole, so that a reader never
// finds half of it.
//
// Owner: functions. Thread: any. Memory: plain values.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/key/cluster_key.h"

namespace mlxcomm {

// Where a daemon and mlxcommctl look that are not told otherwise: /etc/mlxcommd/key for
// root, else $XDG_CONFIG_HOME/mlxcommd/key or ~/.config/mlxcommd/key. Empty: no such place.
std::string DefaultKeyFile();

// As that, of a user whose environment has these; either may be nullptr.
std::string KeyFilePlace(bool is_root, const char* config_home, const char* home);

// NOT_FOUND: there is none. INVALID_ARGUMENT: others can read it, it is another user's, or
// it holds no key; the message has the command that mends it.
absl::StatusOr<ClusterKeys> ReadKeyFile(const std::string& path);

enum class KeyFileMode : bool { kOnlyNew, kReplace };
// 0600, in folders that are made where they lack (0700). ALREADY_EXISTS where it is to be new.
absl::Status WriteKeyFile(const std::string& path, const ClusterKeys& keys, KeyFileMode mode);

}  // namespace mlxcomm
