// Figures as people write and read them: "64M", "1.5GiB", "30us", "4.5G".
//
// Sizes count in powers of 1024, rates and times in powers of 1000, as is usual for each.
// A fraction is exact or refused: no size is rounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// "512", "64M", "1.5G", "2KiB". Nothing: not of this form, not whole, or beyond 2^62.
std::optional<std::uint64_t> ParseBytes(std::string_view text);
// "4.5G", "800MB/s"; bytes a second.
std::optional<std::uint64_t> ParseRate(std::string_view text);
// "30us", "1.5ms", "2s", "800ns": a unit is needed.
std::optional<std::uint64_t> ParseDuration(std::string_view text);

std::string Plural(std::uint64_t count, const std::string& word);  // "1 rank", "2 ranks"
std::string HumanNanoseconds(std::uint64_t ns);         // "800 ns", "30.0 us", "12.3 ms", "1.25 s"
std::string HumanRate(std::uint64_t bytes_per_second);  // "5.6 GB/s"

}  // namespace mlxcomm::ctl
