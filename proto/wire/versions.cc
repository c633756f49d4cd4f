#include "proto/wire/versions.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace mlxcomm::wire {
namespace {

// Removes a number from the front of `text`; 0: there is none.
std::uint16_t TakeNumber(std::string_view& text) {
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

VersionRange SpokenVersions() {
  const std::span<const WireVersion> all = WireVersions();
  return {all.front().number, all.back().number};
}

std::optional<std::uint16_t> CommonVersion(const VersionRange& one, const VersionRange& other) {
  const std::uint16_t newest = std::min(one.newest, other.newest);
  if (newest < std::max(one.oldest, other.oldest)) return std::nullopt;
  return newest;
}

std::string TextOf(const VersionRange& range) {
  const std::string oldest = std::to_string(range.oldest);
  return range.oldest == range.newest ? oldest : oldest + " to " + std::to_string(range.newest);
}

std::optional<VersionRange> ParseVersionRange(const std::string& text) {
  constexpr std::string_view kTo = " to ";
  std::string_view rest = text;
  VersionRange range{};
  range.oldest = range.newest = TakeNumber(rest);
  if (rest.starts_with(kTo)) {
    rest.remove_prefix(kTo.size());
    range.newest = TakeNumber(rest);
  }
  if (!rest.empty() || range.oldest == 0 || range.newest < range.oldest) return std::nullopt;
  return range;
}

}  // namespace mlxcomm::wire
