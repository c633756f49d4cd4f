// Access control (README.md): a browser must have the token, use one of this server's names, and
// not act for another site. Pure functions except NewToken and NewPath.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

struct Gate {
  std::string token;
  std::string path;  // Prefix of everything that is served.
  int port = 0;
  std::string bind = "127.0.0.1";  // The address or name to listen on.
  std::string host_name;           // This machine's; used unless `bind` is loopback.
};

// Fields of a request; empty if missing.
struct Visit {
  std::string_view host;        // Host
  std::string_view cookies;     // Cookie
  std::string_view token;       // Taken from the URL.
  std::string_view fetch_site;  // Sec-Fetch-Site
  bool opens_page = false;      // The page itself: other sites may link to it.
  std::string_view method = {};
  std::string_view path = {};
};
// Parses the head of an HTTP/1.x request, including the end of its last line; nullopt if it is not
// one.
std::optional<Visit> ReadVisit(const Gate& gate, std::string_view head);

enum class Admission : std::uint8_t { kAdmitted, kWrongHost, kOtherSite, kNoToken };

// Short enough for URLs of 80 characters.
std::string NewToken();  // 128 random bits.
std::string NewPath();   // "/.../", 64 random bits.
std::string CookieName(int port);
Admission Admit(const Gate& gate, const Visit& visit);

// Parts of Admit. IsSameSecret takes constant time.
bool IsSameSecret(std::string_view a, std::string_view b);
bool IsOwnHost(const Gate& gate, std::string_view host);
// Returns "" if the cookie is missing.
std::string_view CookieIn(std::string_view cookies, std::string_view name);

// Returns whether only this machine can reach it; the only such name is localhost.
bool IsLoopback(const std::string& bind);
// The host of the URL: `bind`, or this machine's name if it listens on all addresses.
std::string HostOfUrl(const Gate& gate);

}  // namespace mlxcomm::ctl
