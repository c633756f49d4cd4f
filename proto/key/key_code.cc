#include "proto/key/key_code.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/types/plain_text.h"
#include "proto/wire/hello.h"

namespace mlxcomm {
namespace {

constexpr std::string_view kAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
constexpr std::size_t kChecksumBytes = 3;
constexpr std::size_t kCodedBytes = kClusterKeyBytes + kChecksumBytes;
constexpr std::size_t kCodedCharacters = kCodedBytes * 8 / 5;
static_assert(kCodedBytes * 8 % 5 == 0);
constexpr std::size_t kGroupCharacters = 4;
constexpr std::string_view kWhiteSpace = " \t\r\n";

using Coded = std::array<std::uint8_t, kCodedBytes>;

// Clears bytes at the end of a scope.
class Wiped {
 public:
  explicit Wiped(std::span<std::uint8_t> bytes) : bytes_(bytes) {}
  ~Wiped() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;

 private:
  std::span<std::uint8_t> bytes_;
};

std::array<std::uint8_t, kChecksumBytes> Checksum(std::string_view name,
                                                  const ClusterKey::Bytes& bytes) {
  std::vector<std::uint8_t> covered(name.begin(), name.end());
  covered.push_back(0);
  covered.insert(covered.end(), bytes.begin(), bytes.end());
  std::array<std::uint8_t, 32> digest{};
  SHA256(covered.data(), covered.size(), digest.data());
  OPENSSL_cleanse(covered.data(), covered.size());
  return {digest[0], digest[1], digest[2]};
}

int ValueOf(char c) {
  const char upper = absl::ascii_toupper(static_cast<unsigned char>(c));
  if (upper == 'O') return 0;
  if (upper == 'I' || upper == 'L') return 1;
  const std::size_t at = kAlphabet.find(upper);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

// Decodes the characters, five bits each, and skips separators.
absl::StatusOr<Coded> FromCharacters(std::string_view text) {
  Coded coded{};
  std::size_t bits = 0;
  for (const char c : text) {
    if (c == '-' || absl::ascii_isspace(static_cast<unsigned char>(c))) continue;
    const int value = ValueOf(c);
    if (value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the key's code has an invalid character at position ", bits / 5 + 1,
                       " (hyphens not counted)"));
    }
    for (int bit = 4; bit >= 0; --bit, ++bits) {
      if (bits / 8 < coded.size() && (value >> bit & 1) != 0) {
        coded[bits / 8] = static_cast<std::uint8_t>(coded[bits / 8] | 128 >> bits % 8);
      }
    }
  }
  if (bits == 5 * kCodedCharacters) return coded;
  return absl::InvalidArgumentError(
      absl::StrCat("the key's code has ", bits / 5, " characters: expected ", kCodedCharacters,
                   " (hyphens not counted), or 64 hexadecimal digits"));
}

}  // namespace

bool IsClusterName(std::string_view name) {
  return !name.empty() && name.size() < wire::kNameBytesMax && IsPlainText(name) &&
         !absl::ascii_isspace(static_cast<unsigned char>(name.front())) &&
         !absl::ascii_isspace(static_cast<unsigned char>(name.back()));
}

std::string WriteKeyCode(const NamedKey& key) {
  Coded coded;
  const auto checksum = Checksum(key.cluster, key.key.bytes());
  std::ranges::copy(checksum, std::ranges::copy(key.key.bytes(), coded.begin()).out);
  std::string code = key.cluster.empty() ? "" : key.cluster + ":";
  for (std::size_t i = 0; i < kCodedCharacters; ++i) {
    if (i > 0 && i % kGroupCharacters == 0) code.push_back('-');
    unsigned value = 0;
    for (std::size_t bit = 5 * i; bit < 5 * i + 5; ++bit) {
      value = value << 1 | (coded[bit / 8] >> (7 - bit % 8) & 1u);
    }
    code.push_back(kAlphabet[value]);
  }
  OPENSSL_cleanse(coded.data(), coded.size());
  return code;
}

absl::StatusOr<NamedKey> ReadKeyCode(std::string_view code) {
  const std::size_t first = code.find_first_not_of(kWhiteSpace);
  const std::string_view text =
      first == std::string_view::npos
          ? std::string_view()
          : code.substr(first, code.find_last_not_of(kWhiteSpace) + 1 - first);
  ClusterKey::Bytes bytes{};
  const Wiped wiped_bytes(bytes);
  if (ReadHex(text, bytes)) return NamedKey{"", ClusterKey(bytes)};
  const std::size_t colon = text.rfind(':');
  const std::string_view name =
      colon == std::string_view::npos ? std::string_view() : text.substr(0, colon);
  if (colon != std::string_view::npos && !IsClusterName(name)) {
    return absl::InvalidArgumentError("the text before the colon is not a valid cluster name");
  }
  absl::StatusOr<Coded> coded =
      FromCharacters(colon == std::string_view::npos ? text : text.substr(colon + 1));
  if (!coded.ok()) return coded.status();
  const Wiped wiped_code(*coded);
  std::copy_n(coded->begin(), bytes.size(), bytes.begin());
  const auto checksum = Checksum(name, bytes);
  if (!std::equal(checksum.begin(), checksum.end(), coded->begin() + kClusterKeyBytes)) {
    return absl::InvalidArgumentError(
        "the key's checksum does not match: a character of the code, or the name before it, is "
        "wrong");
  }
  return NamedKey{std::string(name), ClusterKey(bytes)};
}

void AppendHex(const ClusterKey& key, std::string& text) {
  for (const std::uint8_t byte : key.bytes()) {
    absl::StrAppend(&text, absl::Hex(byte, absl::kZeroPad2));
  }
}

bool ReadHex(std::string_view text, std::span<std::uint8_t> bytes) {
  if (text.size() != 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, bytes[i], 16).ptr != digits + 2) return false;
  }
  return true;
}

}  // namespace mlxcomm
