// The log: level and file from the configuration, limits from log_limit.h. Includes messages of
// libraries.
//
// Owner: main. Thread: Open before others exist; Reopen on main, while others log. Memory:
// spdlog's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

class ReopenedFile;

class Log {
 public:
  // `level` overrides the configuration's unless it is empty.
  static absl::StatusOr<Log> Open(const v1::LogConfig& config, const std::string& level);

  // Handles SIGHUP: continues in a new file of the same name. If that fails, keeps the old one.
  absl::Status Reopen();

 private:
  explicit Log(ReopenedFile* file) : file_(file) {}
  ReopenedFile* file_;  // spdlog's default logger owns it; null: standard error.
};

}  // namespace mlxcomm
