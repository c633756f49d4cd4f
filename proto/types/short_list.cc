#include "proto/types/short_list.h"

#include <algorithm>

#include "proto/types/utf8.h"

namespace mlxcomm {
namespace {
constexpr std::string_view kCut = "...";
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
