#include "proto/types/did_you_mean.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace mlxcomm {
namespace {

// The optimal string alignment distance: the number of letters to change, insert, delete or swap
// (Boytsov, Indexing methods for approximate dictionary searching, ACM JEA 16, 2011, section 2.1).
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      next[j + 1] = std::min({row[j + 1] + 1, next[j] + 1, row[j] + (a[i] == b[j] ? 0u : 1u)});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) {
        next[j + 1] = std::min(next[j + 1], above[j - 1] + 1);
      }
    }
    above.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

// "version" also matches "--version".
std::size_t DistanceOf(std::string_view word, std::string_view name) {
  if (!word.starts_with('-') && name.starts_with("--")) name.remove_prefix(2);
  return name.starts_with(word) ? 0 : Distance(word, name);
}

}  // namespace

std::string DidYouMean(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t kLettersMax = 64;  // Anything longer is not a word.
  const bool has_letters = word.find_first_not_of('-') != std::string_view::npos;
  if (word.size() < 2 || word.size() > kLettersMax || !has_letters) return {};
  const std::string* nearest = nullptr;
  std::size_t least = word.size() / 3 + 1;
  for (const std::string& name : names) {
    const std::size_t distance = DistanceOf(word, name);
    if (distance >= least) continue;
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : "; did you mean \"" + *nearest + "\"?";
}

}  // namespace mlxcomm
