#include "client/ctl/web/gate.h"

#include <algorithm>
#include <cstdlib>

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <asio/ip/address.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mlxcomm::ctl {
namespace {

// Returns nullopt for a name.
std::optional<asio::ip::address> AddressOf(const std::string& text) {
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(text, error);
  return error ? std::nullopt : std::optional(address);
}

bool IsNameOfMachine(const std::string& name, const std::string& host_name) {
  const std::string brief = host_name.substr(0, host_name.find('.'));
  if (brief.empty()) return false;
  return absl::EqualsIgnoreCase(name, host_name) || absl::EqualsIgnoreCase(name, brief) ||
         absl::EqualsIgnoreCase(name, absl::StrCat(brief, ".local"));
}

// Browsers omit http's default port.
std::string_view WithoutPort(std::string_view host, int port) {
  const std::string end = absl::StrCat(":", port);
  if (host.ends_with(end)) return host.substr(0, host.size() - end.size());
  return port == 80 ? host : std::string_view();
}

// Removes the text before the separator, and the separator, from `text`; all of it if there is
// none.
std::string_view TakeUntil(std::string_view separator, std::string_view& text) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + separator.size(), text.size()));
  return taken;
}

std::string RandomWord(std::size_t size) {
  std::string bytes(size, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(size)) != 1)
    std::abort();
  return absl::WebSafeBase64Escape(bytes);
}

}  // namespace

std::string NewToken() { return RandomWord(16); }
std::string NewPath() { return absl::StrCat("/", RandomWord(8), "/"); }

// All ports of a host share cookies, so two servers need different names.
std::string CookieName(int port) { return absl::StrCat("mlxcomm_", port); }

bool IsSameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// Against DNS rebinding: a foreign name that resolves to 127.0.0.1 would be the same site for the
// browser.
bool IsOwnHost(const Gate& gate, std::string_view host) {
  std::string name(WithoutPort(host, gate.port));
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (name == "127.0.0.1" || name == "::1" || absl::EqualsIgnoreCase(name, "localhost"))
    return true;
  if (name.empty()) return false;
  if (absl::EqualsIgnoreCase(name, gate.bind)) return true;
  return !IsLoopback(gate.bind) &&
         (AddressOf(name).has_value() || IsNameOfMachine(name, gate.host_name));
}

std::string_view CookieIn(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    std::string_view one = TakeUntil(";", cookies);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    one = one.substr(0, one.find_last_not_of(' ') + 1);
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return {};
}

std::optional<Visit> ReadVisit(const Gate& gate, std::string_view head) {
  Visit visit;
  std::string_view line = TakeUntil("\r\n", head);
  visit.method = TakeUntil(" ", line);
  std::string_view query = TakeUntil(" ", line);
  if (!query.starts_with('/') || !line.starts_with("HTTP/1.")) return {};
  visit.path = TakeUntil("?", query);
  visit.opens_page = visit.path == gate.path;
  while (!query.empty()) {
    const std::string_view one = TakeUntil("&", query);
    if (one.starts_with("t=")) visit.token = one.substr(2);
  }
  while (!head.empty()) {
    std::string_view value = TakeUntil("\r\n", head);
    if (value.find(':') == std::string_view::npos) return {};
    const std::string name = absl::AsciiStrToLower(std::string(TakeUntil(":", value)));
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (name == "host") {
      if (!visit.host.empty()) return {};
      visit.host = value;
    } else if (name == "cookie") {
      visit.cookies = value;
    } else if (name == "sec-fetch-site") {
      visit.fetch_site = value;
    }
  }
  return visit;
}

Admission Admit(const Gate& gate, const Visit& visit) {
  if (!IsOwnHost(gate, visit.host)) return Admission::kWrongHost;
  // Other ports of this machine are the same "site", so the cookie is not enough.
  const bool is_own =
      visit.fetch_site.empty() || visit.fetch_site == "same-origin" || visit.fetch_site == "none";
  if (!is_own && !visit.opens_page) return Admission::kOtherSite;
  const std::string_view cookie = CookieIn(visit.cookies, CookieName(gate.port));
  if (IsSameSecret(visit.token, gate.token) || IsSameSecret(cookie, gate.token))
    return Admission::kAdmitted;
  return Admission::kNoToken;
}

bool IsLoopback(const std::string& bind) {
  const auto address = AddressOf(bind);
  return address.has_value() ? address->is_loopback() : absl::EqualsIgnoreCase(bind, "localhost");
}

std::string HostOfUrl(const Gate& gate) {
  const bool is_six = gate.bind.find(':') != std::string::npos;
  const auto address = AddressOf(gate.bind);
  if (!address.has_value() || !address->is_unspecified())
    return is_six ? absl::StrCat("[", gate.bind, "]") : gate.bind;
  if (!gate.host_name.empty()) return gate.host_name;
  return is_six ? "[::1]" : "127.0.0.1";
}

}  // namespace mlxcomm::ctl
