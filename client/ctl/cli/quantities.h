// Figures as people write and read them: "64M", "1.5GiB", "30us".
//
// Sizes count in powers of 1024, rates and times in powers of 1000, as is usual for each.
// A fraction that is read is exact or refused: no size is rounded. What is shown is rounded as
// printf does it. The page of `mlxcommctl web` shows the same texts (web/page/words.js);
// shown_quantities.def, beside the tests, has what both are tested with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// "512", "64M", "1.5G", "2KiB". Nothing: not of this form, not whole, or beyond 2^62.
std::optional<std::uint64_t> ParseBytes(std::string_view text);
// "30us", "1.5ms", "2s", "10m", "10min", "1h": a unit is needed.
std::optional<std::uint64_t> ParseDuration(std::string_view text);

std::string Plural(std::uint64_t count, const std::string& word);  // "1 rank", "2 ranks"
std::string HumanNanoseconds(std::uint64_t ns);  // "800 ns", "30.0 us", "12.3 ms", "1.25 s"
std::string HumanRate(double bytes_per_second);  // "5.65 GB/s"
// "idle" where there is less than what two daemons tell each other anyway.
std::string RateNow(double bytes_per_second);
std::string HumanBytes(double bytes);               // "1.5 MiB"
std::string HumanTime(std::uint64_t milliseconds);  // "3.2 s", "2 h 5 min"

}  // namespace mlxcomm::ctl
