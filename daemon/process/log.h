// The log: level and place from the configuration, limits of log_limit.h (spdlog does the rest). Messages of
// libraries are lines of it.
//
// Owner: main, for as long as the daemon lives. Thread: Open before others exist;
// Reopen on the main thread, while others log. Memory: spdlog's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

class ReopenedFile;

class Log {
 public:
  // `level` overrides the configuration's where it is not empty.
  static absl::StatusOr<Log> Open(const v1::LogConfig& config, const std::string& level);

  // At SIGHUP: goes on in a new file of the same name, for those who move the old one aside.
  // Where that cannot be made, goes on in the old one and says why.
  absl::Status Reopen();

 private:
  explicit Log(ReopenedFile* file) : file_(file) {}
  ReopenedFile* file_;  // spdlog's default logger owns it; null: standard error.
};

}  // namespace mlxcomm
