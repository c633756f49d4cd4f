// The log: levels and place from the configuration (spdlog does the rest).
//
// Owner: main. Thread: before others exist. Memory: spdlog's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

// `level` overrides the configuration's where it is not empty.
absl::Status OpenLog(const v1::LogConfig& config, const std::string& level);

}  // namespace mlxcomm
