// The configuration file: protobuf text format (mlxcomm/v1/config.proto), checked
// field by field, with the place of every mistake.
//
// Owner: functions. Thread: main, before any other exists. Memory: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mlxcomm/v1/config.pb.h"
#include "proto/key/key_file.h"
#include "proto/types/node_id.h"

namespace mlxcomm {

// INVALID_ARGUMENT: "FILE:LINE:COLUMN: field: what was expected", one line for each
// mistake; a key file that will not do is one. All defaults are filled in, the name that
// came with the key among them. An empty path gives the defaults. A key file that is not
// named is looked for at `key_place`, where mlxcommctl puts it.
absl::StatusOr<v1::DaemonConfig> ReadConfigFile(const std::string& path,
                                                const std::string& key_place = DefaultKeyFile());
// As ReadConfigFile, for a text, without a look at other files; `name` stands for the
// file in messages.
absl::StatusOr<v1::DaemonConfig> ParseConfig(const std::string& text, const std::string& name);

// All of the configuration with defaults, help and bounds, as a file that ReadConfigFile takes.
std::string AnnotatedConfig();

// Reads DIRECTORY/node-id, or makes it (0600) with a new random id.
absl::StatusOr<NodeId> ReadOrMakeNodeId(const std::string& directory);
NodeId MakeNodeId();

}  // namespace mlxcomm
