// The configuration file: protobuf text format (mlxcomm/v1/config.proto), checked
// field by field, with the place of every mistake.
//
// Owner: functions. Thread: main, before any other exists. Memory: plain values.
#pragma once

#include <string>
#include <vector>

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

// What is wrong with it as the daemon's socket, in the file or as an argument; empty: nothing.
std::string MistakeInSocketPath(const std::string& path);

// What is no mistake, but will not do what it seems to: sentences for people.
std::vector<std::string> WarningsOf(const v1::DaemonConfig& config);

// All of the configuration with defaults, help and bounds, as a file that ReadConfigFile takes.
std::string AnnotatedConfig();

// FAILED_PRECONDITION: others may write to it, and could give this node another identity or take it
// away. One that is not there yet is fine.
absl::Status CheckStateDirectory(const std::string& directory);
// Reads DIRECTORY/node-id, or makes it (0600) with a new random id.
absl::StatusOr<NodeId> ReadOrMakeNodeId(const std::string& directory);
NodeId MakeNodeId();

}  // namespace mlxcomm
