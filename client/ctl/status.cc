#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <google/protobuf/util/json_util.h>

#include "client/ctl/daemon_call.h"
#include "client/ctl/render_status.h"
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
    google::protobuf::util::JsonPrintOptions format;
    format.add_whitespace = true;
#if GOOGLE_PROTOBUF_VERSION >= 5026000  // Its name changed with protobuf 26.
    format.always_print_fields_with_no_presence = true;
#else
    format.always_print_primitive_fields = true;
#endif
    format.preserve_proto_field_names = true;
    const auto made = google::protobuf::util::MessageToJsonString(status, &text, format);
    if (!made.ok()) {
      std::fprintf(stderr, "mlxcommctl: no JSON of the daemon's answer: %s\n",
                   made.ToString().c_str());
      return kExitFailed;
    }
  } else {
    text = RenderStatus(status, ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr);
  }
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "mlxcommctl: cannot write the status: %s\n", std::strerror(errno));
    return kExitFailed;
  }
  return 0;
}

}  // namespace mlxcomm::ctl
