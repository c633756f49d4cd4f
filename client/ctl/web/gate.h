// Who may have the page: a browser that has the token, asks for this server by a name of its own,
// and does not do so for another site. Pure functions but for NewToken.
//
// A token is in the URL that people open and, once they have, in a cookie.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

struct Gate {
  std::string token;
  int port = 0;
  bool loopback = true;   // Else it listens for others, too.
  std::string host_name;  // Of this machine; only if others may come.
};

// What a request says of itself; empty: it does not.
struct Visit {
  std::string_view host;        // Host
  std::string_view cookies;     // Cookie
  std::string_view token;       // Of the URL.
  std::string_view fetch_site;  // Sec-Fetch-Site
  bool opens_page = false;      // Rather than a part of it: links of other sites may lead there.
};

enum class Admission : std::uint8_t { kAdmitted, kWrongHost, kOtherSite, kNoToken };

std::string NewToken();  // 128 random bits, in hexadecimal digits.
std::string CookieName(int port);
Admission Admit(const Gate& gate, const Visit& visit);

// The parts: Admit needs them all.
bool IsSameSecret(std::string_view a,
                  std::string_view b);  // Takes the same time wherever they differ.
bool IsOwnHost(const Gate& gate, std::string_view host);
// Empty: there is none.
std::string_view CookieIn(std::string_view cookies, std::string_view name);

bool IsLoopback(const std::string& address);

}  // namespace mlxcomm::ctl
