#include "proto/types/plain_text.h"

#include <algorithm>
#include <cstdint>

namespace mlxcomm {
namespace {

constexpr std::string_view kCut = "...";

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

std::string Shortened(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  const std::size_t kept = bytes_max - std::min(bytes_max, kCut.size());
  return std::string(Utf8Prefix(text, kept)) + std::string(kCut);
}

std::string ShortList(const std::vector<std::string>& items, std::string_view separator,
                      std::size_t bytes_max) {
  const auto and_more = [&](std::size_t left) {
    if (left == 0) return std::string();
    return std::string(separator) + "and " + std::to_string(left) + " more";
  };
  const std::size_t beside = and_more(items.size()).size() + separator.size();
  const std::size_t item_max =
      items.size() > 1 ? (bytes_max - std::min(bytes_max, beside)) / 2 : bytes_max;
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item =
        (i == 0 ? std::string() : std::string(separator)) + Shortened(items[i], item_max);
    const std::size_t left = items.size() - i - 1;
    if (text.size() + item.size() + and_more(left).size() > bytes_max) {
      return text + and_more(left + 1);
    }
    text += item;
  }
  return text;
}

}  // namespace mlxcomm
