// Texts of several verbs: names that others chose, made harmless; columns, colours, the order of
// names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// The text without anything that a terminal would interpret as a command: control characters (also
// those of two bytes) become "?".
std::string Shown(std::string_view text);

std::string FirstLine(std::string_view text);
std::string Padded(std::string text, std::size_t width);
// By a code of ECMA-48: "1" bold, "31" red, "32" green, "33" yellow, "36" cyan.
std::string Coloured(std::string_view code, const std::string& text, bool colours);

// For an order in which "mac-10" follows "mac-9": numbers get leading zeros. web/page/words.js has the
// same.
std::string NumbersPadded(const std::string& name);

// DidYouMean before all names, which ", " separates: "; did you mean \"ring\"? Expected one of ring,
// tree", or ": expected one of ring, tree" where none is near.
std::string ExpectedOneOf(std::string_view word, const std::string& names);

}  // namespace mlxcomm::ctl
