// Text helpers that verbs share: safe display of names that others chose, columns, colours,
// sorting.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// Replaces control characters, which a terminal could interpret as a command, with "?".
std::string Shown(std::string_view text);

std::string FirstLine(std::string_view text);
std::string Padded(std::string text, std::size_t width);
// `code` is from ECMA-48: "1" bold, "31" red, "32" green, "33" yellow, "36" cyan.
std::string Coloured(std::string_view code, const std::string& text, bool colours);

// A sort key by which "mac-10" follows "mac-9": numbers get leading zeros. words.js has the same.
std::string NumbersPadded(const std::string& name);

// Returns "; did you mean \"ring\"? Expected one of ring, tree", or, if no name is similar, ":
// expected one of ring, tree". `names` is "ring, tree".
std::string ExpectedOneOf(std::string_view word, const std::string& names);

}  // namespace mlxcomm::ctl
