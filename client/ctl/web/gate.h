// Who may have the page: a browser that has the token, asks for this server by a name of its own,
// and does not do so for another site. Pure functions but for NewToken.
// README.md, Who may look, says how token and path keep others out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

struct Gate {
  std::string token;
  std::string path;  // All that is served lies below it.
  int port = 0;
  std::string bind = "127.0.0.1";  // The address, or name of one, that it listens at.
  std::string host_name;           // Of this machine; asked only if others may come.
};

// What a request says of itself; empty: it does not.
struct Visit {
  std::string_view host;        // Host
  std::string_view cookies;     // Cookie
  std::string_view token;       // Of the URL.
  std::string_view fetch_site;  // Sec-Fetch-Site
  bool opens_page = false;      // Rather than a part of it: links of other sites may lead there.
  std::string_view method = {};
  std::string_view path = {};
};
// `head`: of a request of HTTP/1.x, with the end of its last line. None: it is not one.
std::optional<Visit> ReadVisit(const Gate& gate, std::string_view head);

enum class Admission : std::uint8_t { kAdmitted, kWrongHost, kOtherSite, kNoToken };

// Letters, digits, "-" and "_": URLs of 80 characters or fewer stay on one line.
std::string NewToken();  // 128 random bits.
std::string NewPath();   // "/.../", 64 random bits: it is guessed by asking a browser for each.
std::string CookieName(int port);
Admission Admit(const Gate& gate, const Visit& visit);

// The parts: Admit needs them all.
bool IsSameSecret(std::string_view a,
                  std::string_view b);  // Takes the same time wherever they differ.
bool IsOwnHost(const Gate& gate, std::string_view host);
// Empty: there is none.
std::string_view CookieIn(std::string_view cookies, std::string_view name);

// An address that only this machine reaches, in any spelling; another name than localhost is none.
bool IsLoopback(const std::string& bind);
// Where a browser finds it: as it listens; at all of this machine's addresses: by this machine's name.
std::string HostOfUrl(const Gate& gate);

}  // namespace mlxcomm::ctl
