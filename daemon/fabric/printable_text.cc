#include "daemon/fabric/printable_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mlxcomm::fabric {
namespace {

std::uint8_t ByteAt(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
}

// Bytes of the well-formed, printable character at `at`; 0: there is none. The bounds of
// the second byte exclude overlong forms, surrogates, what lies beyond U+10FFFF, and the
// control characters from U+0080 to U+009F.
std::size_t CharacterLength(std::string_view text, std::size_t at) {
  const std::uint8_t first = ByteAt(text, at);
  const std::uint8_t second = ByteAt(text, at + 1);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  std::size_t length = 0;
  std::uint8_t least = 0x80;
  std::uint8_t most = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
    if (first == 0xc2) least = 0xa0;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) least = 0xa0;
    if (first == 0xed) most = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) least = 0x90;
    if (first == 0xf4) most = 0x8f;
  } else {
    return 0;
  }
  if (second < least || second > most) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((ByteAt(text, at + i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string MakePrintable(std::string_view text) {
  std::string printable;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = CharacterLength(text, at);
    printable += length == 0 ? "?" : text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return printable;
}

}  // namespace mlxcomm::fabric
