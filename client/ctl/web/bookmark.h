// A file with a fixed address that redirects to the served page, whose port, path and token change
// whenever the program starts (README.md, "The bookmark"). Only its user can read it.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mlxcomm::ctl {

class Bookmark {
 public:
  Bookmark();  // Below $XDG_STATE_HOME or ~/.local/state.

  // "file:///.../mlxcommctl/web.html"
  std::string address() const;
  absl::Status RedirectTo(const std::string& url);
  // Call when the server stops: the file says so, unless it redirects to another server by now.
  void Release();
  // Opens it in the user's browser, without secrets in the arguments. NOT_FOUND: no program to open
  // a browser; FAILED_PRECONDITION: no display, or RedirectTo was not called.
  absl::StatusOr<pid_t> Open() const;

 private:
  absl::Status Write(const std::string& text) const;

  std::string folder_;  // Empty without a home folder, or with sudo: no bookmark.
  std::string text_;    // The file's text; empty: not written.
};

}  // namespace mlxcomm::ctl
