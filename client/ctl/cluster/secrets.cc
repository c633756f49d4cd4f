#include "client/ctl/cluster/secrets.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/key/key_code.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kRemoved[] = "(removed: a key)";
constexpr std::size_t kKeyDigits = 64;

bool IsHex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool IsBase64(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '/' || c == '-' ||
         c == '_';
}
bool IsBetween(char c) { return c == ':' || c == ' ' || c == '-'; }

// Returns the end of a key at `at`, or 0: 64 or more digits, optionally with a separator after
// every second digit.
std::size_t EndOfHexKey(const std::string& text, std::size_t at) {
  std::size_t digits = 0;
  std::size_t end = at;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (IsHex(text[i])) {
      ++digits;
      end = i + 1;
    } else if (digits % 2 != 0 || digits == 0 || !IsBetween(text[i]) || i + 1 >= text.size() ||
               !IsHex(text[i + 1])) {
      break;
    }
  }
  return digits >= kKeyDigits ? end : 0;
}

std::size_t EndOfBase64Key(const std::string& text, std::size_t at) {
  constexpr std::size_t kDigits = 43;
  std::size_t end = at;
  while (end < text.size() && IsBase64(text[end])) ++end;
  return end - at == kDigits && end < text.size() && text[end] == '=' ? end + 1 : 0;
}

// Returns the end of `code` at `at`, in either case and with hyphens or blanks anywhere, or 0.
std::size_t EndOfCode(const std::string& text, std::size_t at, const std::string& code) {
  for (const char expected : code) {
    while (at < text.size() && (text[at] == '-' || text[at] == ' ')) ++at;
    if (at >= text.size()) return 0;
    if (absl::ascii_toupper(static_cast<unsigned char>(text[at++])) != expected) return 0;
  }
  return at;
}

// The same for any text that looks like a code: 14 groups of 4, all separated by hyphens or all by
// blanks.
std::size_t EndOfCodeForm(const std::string& text, std::size_t at) {
  constexpr std::size_t kGroups = 14;
  constexpr std::size_t kGroupCharacters = 4;
  constexpr std::size_t kLength = kGroups * (kGroupCharacters + 1) - 1;
  if (text.size() - at < kLength) return 0;
  const char between = text[at + kGroupCharacters];
  if (between != '-' && between != ' ') return 0;
  bool digits = false;  // Fourteen words of four letters are not a code.
  for (std::size_t i = 0; i < kLength; ++i) {
    const auto c = static_cast<unsigned char>(text[at + i]);
    const bool in_group = i % (kGroupCharacters + 1) != kGroupCharacters;
    if (in_group ? std::isalnum(c) == 0 : text[at + i] != between) return 0;
    digits = digits || std::isdigit(c) != 0;
  }
  const std::size_t end = at + kLength;
  return digits && (end == text.size() || !IsBase64(text[end])) ? end : 0;
}

// Returns the part of a key's code that depends only on the key, not on the cluster's name.
std::string CodeOf(const std::string& key) {
  constexpr std::size_t kBitsOfCharacter = 5;
  ClusterKey::Bytes bytes{};
  if (key.size() != bytes.size()) return {};
  std::ranges::copy(key, bytes.begin());
  std::string code = WriteKeyCode({"", ClusterKey(bytes)});
  std::erase(code, '-');
  return code.substr(0, bytes.size() * 8 / kBitsOfCharacter);
}

// Also removes the rest of the code, up to the next blank.
std::string WithoutCode(const std::string& text, const std::string& code) {
  if (code.empty()) return text;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = EndOfCode(text, at, code);
    if (end == 0 || text[at] == '-' || text[at] == ' ') {
      out += text[at++];
      continue;
    }
    while (end < text.size() && IsBase64(text[end])) ++end;
    out += kRemoved;
    at = end;
  }
  return out;
}

std::string WithoutForms(const std::string& text) {
  std::string out;
  bool inside = false;  // Inside a word, where no key can begin.
  for (std::size_t at = 0; at < text.size();) {
    if (!inside) {
      std::size_t end = IsHex(text[at]) ? EndOfHexKey(text, at) : 0;
      if (end == 0 && IsBase64(text[at])) end = EndOfBase64Key(text, at);
      if (end == 0 && IsBase64(text[at])) end = EndOfCodeForm(text, at);
      if (end != 0) {
        out += kRemoved;
        at = end;
        continue;
      }
    }
    inside = IsBase64(text[at]);
    out += text[at++];
  }
  return out;
}

}  // namespace

std::vector<std::string> KeysIn(const std::string& key_file_text) {
  std::vector<std::string> keys;
  for (const absl::string_view line : absl::StrSplit(key_file_text, '\n')) {
    ClusterKey::Bytes bytes{};
    const std::string digits(absl::StripAsciiWhitespace(line));
    if (ReadHex(digits, bytes)) keys.emplace_back(bytes.begin(), bytes.end());
  }
  return keys;
}

std::string WithoutSecrets(std::string text, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.size() < 8) continue;  // An empty key matches everywhere.
    const std::string hex = absl::BytesToHexString(key);
    std::string base64 = absl::Base64Escape(key);
    std::string web = absl::WebSafeBase64Escape(key);
    while (base64.ends_with('=')) base64.pop_back();
    while (web.ends_with('=')) web.pop_back();
    text = absl::StrReplaceAll(text, {{key, kRemoved},
                                      {hex, kRemoved},
                                      {absl::AsciiStrToUpper(hex), kRemoved},
                                      {base64 + "=", kRemoved},
                                      {base64, kRemoved}});
    text = absl::StrReplaceAll(text, {{web + "=", kRemoved}, {web, kRemoved}});
    text = WithoutCode(text, CodeOf(key));
  }
  return WithoutForms(text);
}

}  // namespace mlxcomm::ctl
