// Numbers with units, as people write and read them: "64M", "1.5GiB", "30us".
//
// Sizes are in powers of 1024, rates and times in powers of 1000. Parsing never rounds: a fraction
// is exact or refused. web/page/words.js shows the same texts; the tests of both read
// shown_quantities.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// "512", "64M", "1.5G", "2KiB". nullopt if the form is wrong, the number is not whole, or it
// exceeds 2^62.
std::optional<std::uint64_t> ParseBytes(std::string_view text);
// "30us", "1.5ms", "2s", "10m", "10min", "1h". The unit is required.
std::optional<std::uint64_t> ParseDuration(std::string_view text);

std::string Plural(std::uint64_t count, const std::string& word);  // "1 rank", "2 ranks"
std::string HumanNanoseconds(std::uint64_t ns);  // "800 ns", "30.0 us", "12.3 ms", "1.25 s"
std::string HumanRate(double bytes_per_second);  // "5.65 GB/s"
// "idle" if the daemons exchange only their own messages.
std::string RateNow(double bytes_per_second);
std::string HumanBytes(double bytes);               // "1.5 MiB"
std::string HumanTime(std::uint64_t milliseconds);  // "3.2 s", "2 h 5 min"

}  // namespace mlxcomm::ctl
