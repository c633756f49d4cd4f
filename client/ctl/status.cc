#include <cerrno>
#include <cstdio>
#include <cstring>

#include "client/ctl/daemon_call.h"
#include "client/ctl/json_text.h"
#include "client/ctl/render_status.h"
#include "client/ctl/terminal.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {

int RunStatus(const StatusOptions& options) {
  v1::StatusReply status;
  const Failure failure = FetchStatus(options.socket_path, status);
  if (!failure.ok()) {
    std::fprintf(stderr, "mlxcommctl: %s\n", Shown(failure.message).c_str());
    return failure.code == FailureCode::kUnavailable ? kExitNoDaemon : kExitFailed;
  }
  std::string text;
  if (options.json) {
    if (const Failure made = ToJson(status, text); !made.ok()) {
      std::fprintf(stderr, "mlxcommctl: %s\n", made.message.c_str());
      return kExitFailed;
    }
  } else {
    text = RenderStatus(status, ColoursWanted());
  }
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "mlxcommctl: cannot write the status: %s\n", std::strerror(errno));
    return kExitFailed;
  }
  return 0;
}

}  // namespace mlxcomm::ctl
