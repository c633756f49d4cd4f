#include "client/ctl/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "client/ctl/cli/json_text.h"
#include "client/ctl/status/render_status.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

bool as_json = false;

int Tell(int exit_code, const char* code, const std::string& message) {
  std::fprintf(stderr, "mlxcommctl: %s\n", Shown(message).c_str());
  if (!as_json || exit_code == kExitUsage) return exit_code;
  v1::CommandFailed failed;
  v1::CommandError& error = *failed.mutable_error();
  error.set_code(code);
  error.set_message(message);
  error.set_exit_code(exit_code);
  std::fprintf(stdout, "%s\n", JsonOf(std::move(failed), JsonLayout::kCompact).c_str());
  return exit_code;
}

}  // namespace

void PrintFailuresAsJson() { as_json = true; }

int WriteOut(const std::string& text, const char* what) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "mlxcommctl: cannot write the %s: %s\n", what, std::strerror(errno));
  return kExitFailed;
}

int ReportFailure(const Failure& failure) {
  return Tell(failure.code == FailureCode::kUnavailable ? kExitNoDaemon : kExitFailed,
              FailureCodeName(failure.code), failure.message);
}

int Fail(int code, const std::string& message) {
  return Tell(code, code == kExitNoDaemon ? FailureCodeName(FailureCode::kUnavailable) : "FAILED",
              message);
}

}  // namespace mlxcomm::ctl
