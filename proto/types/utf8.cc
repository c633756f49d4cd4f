#include "proto/types/utf8.h"

#include <cstdint>

namespace mlxcomm {

std::size_t FirstCharacterBytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xc2 && lead < 0xe0   ? 2
                            : lead >= 0xe0 && lead < 0xf0 ? 3
                            : lead >= 0xf0 && lead < 0xf5 ? 4
                                                          : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const std::uint8_t second = byte(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return bytes;
}

std::string_view Utf8Prefix(std::string_view text, std::size_t bytes_max) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t bytes = FirstCharacterBytes(text.substr(end));
    if (bytes == 0 || end + bytes > bytes_max) break;
    end += bytes;
  }
  return text.substr(0, end);
}

}  // namespace mlxcomm
