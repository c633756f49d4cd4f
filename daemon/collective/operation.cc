#include "daemon/collective/operation.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mlxcomm::collective {
namespace {

// Long tables are shown by their ends, because an error message is limited.
std::string Join(std::span<const std::uint64_t> counts) {
  constexpr std::size_t kShown = 8;
  if (counts.size() <= kShown) return absl::StrCat("[", absl::StrJoin(counts, ", "), "]");
  return absl::StrCat("[", absl::StrJoin(counts.first(kShown - 1), ", "), ", ... ", counts.back(),
                      "] (", counts.size(), " counts)");
}

}  // namespace

std::string Operation::LocalCall::DescribeCommon() const {
  const std::string text = call.signature.Describe();
  return CountsPerRank(call.signature.kind) == 1 ? absl::StrCat(text, " of ", Join(counts)) : text;
}

std::string Operation::LocalCall::DescribeOwn() const {
  if (CountsPerRank(call.signature.kind) != 2) return {};
  const std::span<const std::uint64_t> table(counts);
  return absl::StrCat(" sending ", Join(table.first(table.size() / 2)), ", expecting ",
                      Join(table.subspan(table.size() / 2)));
}

}  // namespace mlxcomm::collective
