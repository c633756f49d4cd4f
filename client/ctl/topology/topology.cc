#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/topology/draw_topology.h"
#include "client/ctl/topology/render_topology.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

enum class TopologyForm { kText, kJson, kDot, kSvg };
struct TopologyOptions {
  std::string socket_path;
  TopologyForm form = TopologyForm::kText;
};

// Replaces draw_topology.cc's colours on dark pages.
constexpr char kDark[] = R"svg(<style>@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  [fill="white"] { fill: #0d1117 } [stroke="black"] { stroke: #8b98a5 }
  [fill="#eef2f8"] { fill: #1c2733 } [fill="lightgrey"] { fill: #1c2733 }
  [stroke="#2b6b3a"] { stroke: #5fbf7a } [stroke="#b9d2f7"] { stroke: #3d5f8c }
  [stroke="#0a5bd0"] { stroke: #6ea8ff }
  [fill="#fbe9e7"] { fill: #3b1715 } [fill="#c62828"] { fill: #ff8a80 }
  [stroke="#c62828"] { stroke: #ff8a80 }
}</style>
)svg";

// Runs Graphviz's dot. NOT_FOUND: it is not installed.
absl::StatusOr<std::string> SvgOf(const std::string& dot) {
  const char* const folder = std::getenv("TMPDIR");
  std::string path =
      absl::StrCat(folder != nullptr && *folder != '\0' ? folder : "/tmp", "/mlxcomm.XXXXXX");
  const int file = ::mkstemp(path.data());
  if (file < 0)
    return absl::UnavailableError(absl::StrCat("cannot create ", path, ": ", std::strerror(errno)));
  const bool written = ::write(file, dot.data(), dot.size()) == static_cast<ssize_t>(dot.size());
  ::close(file);
  auto drawn = written ? RunProgram({"dot", "-Tsvg", path}, {.timeout_ns = 30'000'000'000})
                       : absl::UnavailableError("cannot write " + path);
  ::unlink(path.c_str());
  if (absl::IsNotFound(drawn.status())) {
    return absl::NotFoundError(
        "--svg needs Graphviz: install it with brew install graphviz (Debian: apt install "
        "graphviz), or draw the output of --dot elsewhere");
  }
  if (!drawn.ok()) return drawn.status();
  if (drawn->exit_code != 0)
    return absl::InternalError(absl::StrCat("Graphviz's dot ended ", HowEnded(drawn->exit_code),
                                            "; --dot prints its input"));
  if (drawn->text.find("</svg>") == std::string::npos) {
    return absl::ResourceExhaustedError(
        "the picture is too large for mlxcommctl: draw it with mlxcommctl topology --dot | dot "
        "-Tsvg");
  }
  const std::size_t begin = drawn->text.find("<g id=\"graph0\"");
  if (begin != std::string::npos) drawn->text.insert(begin, kDark);
  return std::move(drawn->text);
}

int RunTopology(const TopologyOptions& options) {
  v1::TopologyReply topology;
  Failure failure = FetchTopology(options.socket_path, topology);
  std::string text;
  if (failure.ok() && options.form == TopologyForm::kJson) failure = ToJson(topology, text);
  if (!failure.ok()) return ReportFailure(failure);
  switch (options.form) {
    case TopologyForm::kJson: break;
    case TopologyForm::kDot: text = DrawTopology(topology); break;
    case TopologyForm::kSvg: {
      auto drawn = SvgOf(DrawTopology(topology));
      if (!drawn.ok()) return Fail(kExitFailed, std::string(drawn.status().message()));
      text = *std::move(drawn);
      break;
    }
    case TopologyForm::kText: text = RenderTopology(topology, ColoursWanted()); break;
  }
  return WriteOut(text, "topology");
}

}  // namespace

Run AddTopology(CLI::App& topology, const Invocation&) {
  const auto options = std::make_shared<TopologyOptions>();
  AddSocket(topology, options->socket_path);
  const auto form = [options](TopologyForm which) {
    return [options, which](std::int64_t) { options->form = which; };
  };
  CLI::Option* const json = topology.add_flag_function(
      "--json", form(TopologyForm::kJson), "Print JSON (TopologyReply in diagnostics.proto)");
  CLI::Option* const dot = topology.add_flag_function("--dot", form(TopologyForm::kDot),
                                                      "Print a graph in Graphviz's language");
  CLI::Option* const svg = topology.add_flag_function(
      "--svg", form(TopologyForm::kSvg), "Print an SVG picture (needs Graphviz's dot)");
  json->excludes(dot)->excludes(svg);
  dot->excludes(svg);
  topology.footer(
      R"(Recognizes a pair, a ring, a line, a mesh or a switch. A cable shows its best rate in the
slower direction, and the round trip of its last heartbeat. In a picture the ring's cables
are thick, and cables that are down are dashed and red; with more than 16 cables only these
have figures.)");
  return [options] { return RunTopology(*options); };
}

}  // namespace mlxcomm::ctl
