#include "proto/types/plain_text.h"

#include <algorithm>
#include <cstddef>

#include "proto/types/utf8.h"

namespace mlxcomm {
namespace {

bool IsControl(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  return character.size() == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;
}

// The length of the plain character at the start of the text; 0: it is not plain.
std::size_t FirstPlainBytes(std::string_view text) {
  const std::size_t bytes = FirstCharacterBytes(text);
  return IsControl(text.substr(0, bytes)) ? 0 : bytes;
}

}  // namespace

bool IsPlainText(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = FirstPlainBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string MakePrintable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const std::size_t bytes = FirstPlainBytes(text);
    printable += bytes == 0 ? "?" : text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return printable;
}

}  // namespace mlxcomm
