// Text in messages for people. Names from other processes must not move a terminal's cursor or
// break a line, and long lists must not cut off the end of a message, which is the remedy.
//
// Plain text is UTF-8 without control characters: U+0000 to U+001F, U+007F to U+009F.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm {

// The error text for a wrong argument.
inline std::string WhyWrong(std::string_view name, const std::string& expected,
                            const std::string& got) {
  return std::string(name) + ": expected " + expected + ", got " + got;
}

// The length of the well-formed character at the start of a nonempty text; 0: there is none.
// Overlong forms, surrogates and numbers above U+10FFFF are not well-formed.
std::size_t FirstCharacterBytes(std::string_view text);

// The longest prefix of the text that is valid UTF-8 and has at most bytes_max bytes. Protobuf
// rejects a message with an invalid string, such as a name cut inside a character.
std::string_view Utf8Prefix(std::string_view text, std::size_t bytes_max);

bool IsPlainText(std::string_view text);
// Replaces each byte that is not part of plain text by '?'.
std::string MakePrintable(std::string_view text);

// The text, or its beginning and "...", in at most bytes_max bytes (>= 3) of whole characters.
std::string Shortened(std::string_view text, std::size_t bytes_max);

// "a; b; and 3 more" with the separator "; ", in at most bytes_max bytes (>= 40). If there are
// several items, each gets at most half of the bytes, so that at least two are shown.
std::string ShortList(const std::vector<std::string>& items, std::string_view separator,
                      std::size_t bytes_max);

}  // namespace mlxcomm
