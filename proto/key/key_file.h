// The file that holds the cluster's key on each machine: the daemon reads it, mlxcommctl creates
// and changes it.
//
//   cluster NAME        where the key came with a name
//   64 hex digits       the current key
//   64 hex digits       the previous one, while the key is being changed
//
// `openssl rand -hex 32` makes a key as well. Only the file's owner may read or write it, because a
// machine that holds the key is a node. It is written under another name and then renamed, so that
// a reader never finds half of it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/key/cluster_key.h"

namespace mlxcomm {

// Where a daemon and mlxcommctl look by default: /etc/mlxcommd/key for root, else
// $XDG_CONFIG_HOME/mlxcommd/key or ~/.config/mlxcommd/key. Empty: there is no such place.
std::string DefaultKeyFile();

// The same for a user whose environment has these; either may be nullptr.
std::string KeyFilePlace(bool is_root, const char* config_home, const char* home);

// NOT_FOUND: there is none. INVALID_ARGUMENT: others can read it, it belongs to another user, or it
// holds no key; the message has the command that repairs it.
absl::StatusOr<ClusterKeys> ReadKeyFile(const std::string& path);

enum class KeyFileMode : bool { kOnlyNew, kReplace };
// The file gets mode 0600, and missing folders are made (0700). ALREADY_EXISTS: it must be new, and
// is not.
absl::Status WriteKeyFile(const std::string& path, const ClusterKeys& keys, KeyFileMode mode);

}  // namespace mlxcomm
