#include "client/ctl/web/bookmark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "proto/queue/dial.h"
#include "proto/system/program.h"
#include "proto/system/small_file.h"

namespace mlxcomm::ctl {
namespace {

#if defined(__APPLE__)
constexpr char kOpener[] = "open";
#else
constexpr char kOpener[] = "xdg-open";
#endif
constexpr char kPage[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"color-scheme\" content=\"light dark\"><title>mlxcomm</title>"
    "<meta http-equiv=\"refresh\" content=\"%s\"></head><body><p>%s</p></body></html>\n";

std::string Encoded(const std::string& path) {
  constexpr std::string_view kPlain = "/-._~";
  std::string out;
  for (const char c : path) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       kPlain.find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : absl::StrFormat("%%%02X", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

Bookmark::Bookmark() {
  const std::string invoker = queue::Environment("SUDO_UID");
  // In the folder of the user who runs sudo, a link could redirect what root writes.
  if (::geteuid() == 0 && !invoker.empty() && invoker != "0") return;
  std::string state = queue::Environment("XDG_STATE_HOME");
  const std::string home = queue::Environment("HOME");
  if (!state.starts_with('/') && home.starts_with('/')) state = home + "/.local/state";
  if (state.starts_with('/')) folder_ = state + "/mlxcommctl";
}

std::string Bookmark::address() const {
  return absl::StrCat("file://", Encoded(folder_), "/web.html");
}

absl::Status Bookmark::Write(const std::string& text) const {
  if (folder_.empty())
    return absl::NotFoundError("with sudo there is none, or HOME is not set to a folder");
  const auto failed = [this](const std::string& why) {
    return absl::UnavailableError(absl::StrCat(folder_, ": ", why));
  };
  const mode_t before = ::umask(077);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  ::umask(before);
  if (error) return failed(error.message());
  struct stat facts{};
  if (::lstat(folder_.c_str(), &facts) != 0) return failed(std::strerror(errno));
  if (!S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 022) != 0)
    return failed("expected a folder of this user that others cannot change");
  if (!WriteWhole(folder_ + "/web.html", text, Placing::kReplace))
    return failed(std::strerror(errno));
  return absl::OkStatus();
}

absl::Status Bookmark::RedirectTo(const std::string& url) {
  if (url.find_first_of("<>&\"' ") != std::string::npos)
    return absl::InvalidArgumentError("the URL contains characters of HTML");
  std::string text =
      absl::StrFormat(kPage, absl::StrCat("0; url=", url),
                      absl::StrCat("The page is at <a href=\"", url, "\">", url, "</a>."));
  const absl::Status written = Write(text);
  if (written.ok()) text_ = std::move(text);
  return written;
}

void Bookmark::Release() {
  if (text_.empty() || ReadFileText(folder_ + "/web.html") != text_) return;
  // It reloads itself, so an open tab shows the page at the next start.
  Write(absl::StrFormat(kPage, "2",
                        "mlxcommctl web is not running. Start it with <code>mlxcommctl web</code>; "
                        "this page then redirects to it."))
      .IgnoreError();
}

absl::StatusOr<pid_t> Bookmark::Open() const {
  if (text_.empty()) return absl::FailedPreconditionError("the bookmark was not written");
#if !defined(__APPLE__)
  if (queue::Environment("DISPLAY").empty() && queue::Environment("WAYLAND_DISPLAY").empty())
    return absl::FailedPreconditionError("neither DISPLAY nor WAYLAND_DISPLAY is set");
#endif
  const FileDescriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  // In its own process group, so that Ctrl-C does not end the browser.
  return StartProgram({kOpener, folder_ + "/web.html"},
                      {.output = nowhere.get(), .error = nowhere.get(), .leads_group = true});
}

}  // namespace mlxcomm::ctl
