#include "client/ctl/cli/text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/types/did_you_mean.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {

std::string Shown(std::string_view text) { return MakePrintable(text); }

std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string Padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string Coloured(std::string_view code, const std::string& text, bool colours) {
  return colours ? absl::StrCat("\x1b[", std::string(code), "m", text, "\x1b[0m") : text;
}

std::string NumbersPadded(const std::string& name) {
  constexpr std::size_t kDigits = 20;
  std::string padded;
  std::string digits;
  for (std::size_t at = 0; at <= name.size(); ++at) {
    if (at < name.size() && name[at] >= '0' && name[at] <= '9') {
      digits += name[at];
      continue;
    }
    if (!digits.empty())
      padded += std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
    digits.clear();
    if (at < name.size()) padded += name[at];
  }
  return padded;
}

std::string ExpectedOneOf(std::string_view word, const std::string& names) {
  const std::string meant = DidYouMean(word, absl::StrSplit(names, ", "));
  return (meant.empty() ? ": expected one of " : meant + " Expected one of ") + names;
}

}  // namespace mlxcomm::ctl
