// The file with the cluster's key on each machine: the daemon reads it, mlxcommctl creates and
// changes it.
//
//   cluster NAME        optional
//   64 hex digits       the current key
//   64 hex digits       the previous key, during a rotation
//
// `openssl rand -hex 32` makes a key as well. Only the file's owner may read or write it. It is
// written under another name and then renamed, so that a reader never sees a partial file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/key/cluster_key.h"
#include "proto/system/small_file.h"

namespace mlxcomm {

// The default path: /etc/mlxcommd/key for root, $XDG_CONFIG_HOME/mlxcommd/key or
// ~/.config/mlxcommd/key for other users. Empty if none of these variables is set.
std::string DefaultKeyFile();

// Same, for these values of XDG_CONFIG_HOME and HOME, which may be nullptr.
std::string KeyFilePlace(bool is_root, const char* config_home, const char* home);

// NOT_FOUND: no such file. INVALID_ARGUMENT: other users can read it, it belongs to another user,
// or it is not a key file; the message has the command that fixes it.
absl::StatusOr<ClusterKeys> ReadKeyFile(const std::string& path);

// Writes the file with mode 0600, and makes missing folders with 0700. With kOnlyNew,
// ALREADY_EXISTS if the file exists.
absl::Status WriteKeyFile(const std::string& path, const ClusterKeys& keys, Placing placing);

}  // namespace mlxcomm
