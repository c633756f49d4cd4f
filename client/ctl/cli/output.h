// How verbs write their output: to standard output, with a message if that fails.
//
// Thread: main.
#pragma once

#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

inline constexpr int kExitFailed = 1;  // The daemon or a rank failed.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;
inline constexpr int kExitWarnings = 4;  // doctor: warnings, but no error.

// Returns the exit code; `what` is for the message: "cannot write the status".
int WriteOut(const std::string& text, const char* what);
// Writes to standard error; returns kExitNoDaemon or kExitFailed.
int ReportFailure(const Failure& failure);
// The same for a message that is no Failure; returns `code`.
int Fail(int code, const std::string& message);

}  // namespace mlxcomm::ctl
