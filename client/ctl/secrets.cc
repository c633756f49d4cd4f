#include "client/ctl/secrets.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

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

// The end of what begins at `at`: 64 digits, perhaps with one separator after every
// second; 0: no key. Digits that go on make it something longer, which goes as a whole.
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

// What mlxcommctl cluster key show writes, as it is or as somebody has typed it: 56 of its
// letters and digits, perhaps with one separator after every fourth.
bool IsOfCode(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != 'U' && c != 'u'; }

std::size_t EndOfCode(const std::string& text, std::size_t at) {
  constexpr std::size_t kCharacters = 56;
  std::size_t characters = 0;
  std::size_t end = at;
  for (; end < text.size(); ++end) {
    if (IsOfCode(text[end])) {
      ++characters;
    } else if (characters % 4 != 0 || characters >= kCharacters || !IsBetween(text[end])) {
      break;
    }
  }
  return characters == kCharacters ? end : 0;
}

std::string WithoutForms(const std::string& text) {
  std::string out;
  bool inside = false;  // Of a word, where nothing begins.
  for (std::size_t at = 0; at < text.size();) {
    if (!inside) {
      std::size_t end = IsHex(text[at]) ? EndOfHexKey(text, at) : 0;
      if (end == 0 && IsBase64(text[at])) end = EndOfBase64Key(text, at);
      if (end == 0 && IsOfCode(text[at])) end = EndOfCode(text, at);
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
    const std::string digits(absl::StripAsciiWhitespace(line));
    if (digits.size() != kKeyDigits || !std::all_of(digits.begin(), digits.end(), IsHex)) continue;
    keys.push_back(absl::HexStringToBytes(digits));
  }
  return keys;
}

std::string WithoutSecrets(std::string text, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.size() < 8) continue;  // Of nothing, everything is a part.
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
  }
  return WithoutForms(text);
}

}  // namespace mlxcomm::ctl
