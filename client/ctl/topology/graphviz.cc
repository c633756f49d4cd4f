#include "client/ctl/topology/graphviz.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {

absl::StatusOr<std::string> SvgOf(const std::string& dot) {
  const char* const place = std::getenv("TMPDIR");
  std::string path =
      absl::StrCat(place != nullptr && *place != '\0' ? place : "/tmp", "/mlxcomm.XXXXXX");
  const int file = ::mkstemp(path.data());
  if (file < 0)
    return absl::UnavailableError(absl::StrCat("cannot make ", path, ": ", std::strerror(errno)));
  const bool written = ::write(file, dot.data(), dot.size()) == static_cast<ssize_t>(dot.size());
  ::close(file);
  auto drawn = written ? RunProgram({"dot", "-Tsvg", path}, {.timeout_ns = 30'000'000'000})
                       : absl::UnavailableError("cannot write " + path);
  ::unlink(path.c_str());
  if (absl::IsNotFound(drawn.status())) {
    return absl::NotFoundError(
        "--svg needs Graphviz: brew install graphviz (Debian: apt install graphviz), or take --dot "
        "and draw it "
        "elsewhere");
  }
  if (!drawn.ok()) return drawn.status();
  if (drawn->exit_code != 0)
    return absl::InternalError(absl::StrCat("Graphviz's dot ended ", HowEnded(drawn->exit_code),
                                            "; --dot shows what it was given"));
  if (drawn->text.find("</svg>") == std::string::npos) {
    return absl::ResourceExhaustedError(
        "the picture is larger than mlxcommctl takes: draw what --dot prints with dot -Tsvg");
  }
  return std::move(drawn->text);
}

}  // namespace mlxcomm::ctl
