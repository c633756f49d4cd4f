#include "client/ctl/cli/quantities.h"

#include <cmath>
#include <iterator>
#include <span>

#include "absl/strings/str_format.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kValueMax = std::uint64_t{1} << 62;
constexpr std::size_t kFractionDigitsMax = 9;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr Unit kBytes[] = {{"", 1},           {"B", 1},
                           {"K", 1ull << 10}, {"KiB", 1ull << 10},
                           {"M", 1ull << 20}, {"MiB", 1ull << 20},
                           {"G", 1ull << 30}, {"GiB", 1ull << 30},
                           {"T", 1ull << 40}, {"TiB", 1ull << 40}};
constexpr Unit kTimes[] = {{"ns", 1},
                           {"us", 1'000},
                           {"ms", 1'000'000},
                           {"s", 1'000'000'000},
                           {"m", 60'000'000'000},
                           {"min", 60'000'000'000},
                           {"h", 3600'000'000'000}};

// Consumes the leading digits; false if there are none or too many.
bool TakeDigits(std::string_view& text, std::uint64_t& value, std::size_t& digits) {
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++digits) {
    if (value > kValueMax / 10) return false;
    value = value * 10 + static_cast<std::uint64_t>(text.front() - '0');
  }
  return digits > 0;
}

std::optional<std::uint64_t> Parse(std::string_view text, std::span<const Unit> units) {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  std::size_t whole_digits = 0;
  std::size_t fraction_digits = 0;
  if (!TakeDigits(text, whole, whole_digits)) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!TakeDigits(text, fraction, fraction_digits) || fraction_digits > kFractionDigitsMax) {
      return std::nullopt;
    }
  }
  std::uint64_t scale = 1;
  for (std::size_t i = 0; i < fraction_digits; ++i) scale *= 10;
  for (const Unit& unit : units) {
    if (unit.name != text) continue;
    // fraction x factor / scale in two steps, because the product could exceed 2^64.
    const std::uint64_t times =
        fraction * (unit.factor / scale) + fraction * (unit.factor % scale) / scale;
    if (fraction * (unit.factor % scale) % scale != 0) return std::nullopt;
    if (whole > kValueMax / unit.factor) return std::nullopt;
    return whole * unit.factor + times;
  }
  return std::nullopt;
}

std::string Scaled(double value, std::span<const char* const> units) {
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", digits, value, units[unit]);
}

}  // namespace

std::optional<std::uint64_t> ParseBytes(std::string_view text) { return Parse(text, kBytes); }
std::optional<std::uint64_t> ParseDuration(std::string_view text) { return Parse(text, kTimes); }

std::string Plural(std::uint64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string HumanNanoseconds(std::uint64_t ns) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  return Scaled(static_cast<double>(ns), kUnits);
}

std::string HumanRate(double bytes_per_second) {
  static constexpr const char* kUnits[] = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
  return Scaled(std::floor(bytes_per_second), kUnits);
}

std::string RateNow(double bytes_per_second) {
  constexpr double kIdle = 10'000;
  return bytes_per_second < kIdle ? "idle" : HumanRate(bytes_per_second);
}

std::string HumanBytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  // A value that would round to 1024 of a unit becomes 1 of the next.
  while (bytes >= (unit == 0 ? 1024 : 1023.5) && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", bytes < 9.95 && unit > 0 ? 1 : 0, bytes, kUnits[unit]);
}

std::string HumanTime(std::uint64_t milliseconds) {
  const std::uint64_t seconds = milliseconds / 1000;
  if (milliseconds < 1000) return absl::StrFormat("%d ms", milliseconds);
  if (seconds < 60) return absl::StrFormat("%.1f s", static_cast<double>(milliseconds) / 1000);
  if (seconds < 3600) return absl::StrFormat("%d min %d s", seconds / 60, seconds % 60);
  return absl::StrFormat("%d h %d min", seconds / 3600, seconds / 60 % 60);
}

}  // namespace mlxcomm::ctl
