#include "client/ctl/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "client/ctl/status/render_status.h"

namespace mlxcomm::ctl {

int WriteOut(const std::string& text, const char* what) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "mlxcommctl: cannot write the %s: %s\n", what, std::strerror(errno));
  return kExitFailed;
}

int ReportFailure(const Failure& failure) {
  std::fprintf(stderr, "mlxcommctl: %s\n", Shown(failure.message).c_str());
  return failure.code == FailureCode::kUnavailable ? kExitNoDaemon : kExitFailed;
}

int Fail(int code, const std::string& message) {
  std::fprintf(stderr, "mlxcommctl: %s\n", Shown(message).c_str());
  return code;
}

}  // namespace mlxcomm::ctl
