// The configuration file: protobuf text format (mlxcomm/v1/config.proto). Errors state their
// location.
//
// Functions. Thread: main, before any other exists. Memory: plain values.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mlxcomm/v1/config.pb.h"
#include "proto/key/key_file.h"
#include "proto/types/node_id.h"

namespace mlxcomm {

// Returns the configuration with all defaults filled in, or INVALID_ARGUMENT with one line for each
// error, including those of the key file: "FILE:LINE:COLUMN: field: what was expected". An empty
// path gives the defaults. `key_place`: the key file if the configuration names none.
absl::StatusOr<v1::DaemonConfig> ReadConfigFile(const std::string& path,
                                                const std::string& key_place = DefaultKeyFile());
// Like ReadConfigFile for a text; reads no other file. Messages call the file `name`.
absl::StatusOr<v1::DaemonConfig> ParseConfig(const std::string& text, const std::string& name);

// Returns why this cannot be the daemon's socket; empty if it can.
std::string MistakeInSocketPath(const std::string& path);

// A valid setting that will probably not have the intended effect; empty if there is none.
std::string WarningOf(const v1::DaemonConfig& config);

// The configuration with defaults, help and bounds, in the format that ReadConfigFile reads.
std::string AnnotatedConfig();

// FAILED_PRECONDITION: others may write to it, and could change this node's identity. It need not
// exist.
absl::Status CheckStateDirectory(const std::string& directory);
// Reads DIRECTORY/node-id, or creates it (0600) with a random id.
absl::StatusOr<NodeId> ReadOrMakeNodeId(const std::string& directory);
NodeId MakeNodeId();

}  // namespace mlxcomm
