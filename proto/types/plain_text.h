// Text in messages for people: names from others in logs, errors and status must not move a
// terminal's cursor or break a line, and lists must not cut off the end of a message, which is the
// remedy.
//
// Plain text is UTF-8 without control characters: U+0000 to U+001F, U+007F to U+009F.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm {

// What is wrong with an argument, for the person who has passed it.
inline std::string WhyWrong(std::string_view name, const std::string& expected,
                            const std::string& got) {
  return std::string(name) + ": expected " + expected + ", got " + got;
}

// The length of the well-formed character at the start of the text, which is not empty; 0: there is
// none. Overlong forms, surrogates and numbers above U+10FFFF are not characters.
std::size_t FirstCharacterBytes(std::string_view text);

// The longest start of the text that is UTF-8, ends with a whole character and has at most
// bytes_max bytes: the text itself where nothing is wrong with it. Protobuf refuses a whole message
// for one string that is not UTF-8, such as a name cut in the middle of a character.
std::string_view Utf8Prefix(std::string_view text, std::size_t bytes_max);

bool IsPlainText(std::string_view text);
// Replaces each byte that is not part of plain text by '?'.
std::string MakePrintable(std::string_view text);

// The text itself, or its start and "..."; at most bytes_max bytes (>= 3), whole characters.
std::string Shortened(std::string_view text, std::size_t bytes_max);

// "a; b; and 3 more" with the separator "; ", at most bytes_max bytes (>= 40). Of several items,
// each takes at most half of the bytes, so that two can be compared.
std::string ShortList(const std::vector<std::string>& items, std::string_view separator,
                      std::size_t bytes_max);

}  // namespace mlxcomm
