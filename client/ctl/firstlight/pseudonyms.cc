#include "client/ctl/firstlight/pseudonyms.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <utility>

namespace mlxcomm::ctl {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool MayBeAddress(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.';
}

bool IsMac(const std::string& text) {
  if (text.size() != 17) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool colon = i % 3 == 2;
    if (colon ? text[i] != ':' : std::isxdigit(static_cast<unsigned char>(text[i])) == 0) {
      return false;
    }
  }
  return true;
}

using Bytes = std::array<std::uint8_t, 16>;

// The replacement's prefix, by the kind of address; empty: the address identifies nobody.
std::string KindOfIpv4(const std::uint8_t* bytes) {
  if (bytes[0] == 127 || (bytes[0] == 0 && bytes[1] == 0)) return {};
  if (bytes[0] == 169 && bytes[1] == 254) return "169.254.0.";
  if (bytes[0] == 10) return "10.0.0.";
  return "192.0.2.";
}

std::string KindOfIpv6(const Bytes& bytes) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    auto kind = KindOfIpv4(bytes.data() + kMapped.size());
    return kind.empty() ? kind : "::ffff:" + kind;
  }
  if (bytes[0] == 0xff ||
      std::all_of(bytes.begin(), bytes.end() - 1, [](auto b) { return b == 0; })) {
    return {};  // A group; unspecified, or loopback.
  }
  if (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) {
    return bytes[11] == 0xff && bytes[12] == 0xfe ? "fe80::200:ff:fe00:" : "fe80::";
  }
  return "2001:db8::";
}

}  // namespace

void Pseudonyms::KnowAs(const std::string& name, const std::string& instead) {
  if (name.size() < 2) return;
  for (const auto& [known, as] : names_) {
    if (known == name) return;
  }
  names_.emplace_back(name, instead);
  std::stable_sort(names_.begin(), names_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

void Pseudonyms::Know(const std::string& name, const std::string& kind) {
  if (name.size() < 2) return;
  for (const auto& [known, as] : names_) {
    if (known == name) return;
  }
  KnowAs(name, kind + "-" + std::to_string(++counts_[kind]));
}

std::string Pseudonyms::Address(const std::string& address) const {
  Bytes bytes{};
  std::string kind;
  std::string key;
  if (IsMac(address)) {
    kind = "02:00:00:00:00:";
    key = address;
  } else if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    kind = KindOfIpv4(bytes.data());
    key = "4" + std::string(reinterpret_cast<const char*>(bytes.data()), 4);
  } else if (address.find(':') != std::string::npos &&
             ::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) {
    kind = KindOfIpv6(bytes);
    key = "6" + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // Mapped ones are the same as plain ones.
    if (kind.starts_with("::ffff:")) {
      char plain[INET_ADDRSTRLEN] = {};
      ::inet_ntop(AF_INET, bytes.data() + 12, plain, sizeof plain);
      return "::ffff:" + Address(plain);
    }
  }
  if (kind.empty()) return address;
  const auto found = addresses_.find(key);
  if (found != addresses_.end()) return found->second;
  // When a kind runs out of numbers, several addresses get the same.
  const int number = std::min(++addresses_of_kind_[kind], 99);
  const bool is_mac = IsMac(address);
  return addresses_[key] = kind + (is_mac && number < 10 ? "0" : "") + std::to_string(number);
}

std::string Pseudonyms::Replace(std::string text) const {
  if (!replaces_) return text;
  for (const auto& [name, instead] : names_) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
      const std::size_t end = at + name.size();
      const bool alone = (at == 0 || !IsWord(text[at - 1]) || !IsWord(name.front())) &&
                         (end == text.size() || !IsWord(text[end]));
      if (alone) text.replace(at, name.size(), instead);
      at += alone ? instead.size() : 1;
    }
  }
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (!MayBeAddress(text[at]) || (at > 0 && (IsWord(text[at - 1]) || text[at - 1] == '-'))) {
      out += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && MayBeAddress(text[end])) ++end;
    std::size_t taken = end;
    // A full stop or colon may end a sentence; behind an IPv4 address a colon begins the port.
    while (taken > at &&
           (text[taken - 1] == '.' ||
            (text[taken - 1] == ':' && !text.substr(at, taken - at).ends_with("::")))) {
      --taken;
    }
    std::string word = text.substr(at, taken - at);
    const std::size_t colon = word.find(':');
    if (colon != std::string::npos && word.find('.') < colon) {
      taken = at + colon;
      word.resize(colon);
    }
    const bool goes_on = taken == end && end < text.size() && IsWord(text[end]);
    out += goes_on ? word : Address(word);
    at = std::max(taken, at + 1);
    if (word.empty()) out += text[at - 1];
  }
  return out;
}

}  // namespace mlxcomm::ctl
