// A page on the disk that leads to the one that is served. Its address stays the same, so a browser can keep
// it, while port, path and token are new with each start of the server.
// README.md, The bookmark, says why. Only its user can read it: the one who runs mlxcommctl, or who
// ran sudo.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mlxcomm::ctl {

class Bookmark {
 public:
  Bookmark();  // Finds its place: below $XDG_STATE_HOME or ~/.local/state.

  // For a browser: "file:///.../mlxcommctl/web.html".
  std::string address() const;
  // From now on it leads to `url`.
  absl::Status LeadTo(const std::string& url);
  // The server ends: the file says so, unless it leads to another server by now.
  void Release();
  // Has its user's browser open it, once it leads somewhere. No secret is an argument. NOT_FOUND: there is no
  // program that opens a browser; FAILED_PRECONDITION: there is no display, or no bookmark.
  absl::StatusOr<pid_t> Open() const;

 private:
  absl::Status Write(const std::string& text) const;

  std::string folder_;  // Empty: there is no place.
  uid_t user_;
  gid_t group_;
  std::string text_;  // As it was written; empty: it was not.
};

}  // namespace mlxcomm::ctl
