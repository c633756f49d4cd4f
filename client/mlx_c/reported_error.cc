#include "client/mlx_c/reported_error.h"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "client/mlx_c/mlxcomm_mlx.h"
#include "mlx/c/error.h"

namespace mlxcomm::mlx_c {
namespace {

// No destructors: these must remain usable in exit handlers.
thread_local mlxcomm_mlx_error t_last{};
thread_local const char* t_being_reported = nullptr;

// Copies as many whole UTF-8 characters as fit.
template <std::size_t kSize>
void Write(const std::string& text, char (&to)[kSize]) {
  std::size_t length = text.size();
  if (length >= kSize) {
    length = kSize - 1;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  text.copy(to, length);
  to[length] = '\0';
}

void Write(const graph::FailureDetails& details, mlxcomm_mlx_error& to) {
  to.code = details.code;
  to.rank = details.rank;
  to.pid = details.pid;
  Write(details.node, to.node);
  Write(details.group, to.group);
  Write(details.message, to.message);
}

}  // namespace

graph::FailureDetails DetailsOf(const std::exception& error) {
  if (const auto* const failed = dynamic_cast<const graph::OperationError*>(&error)) {
    return failed->details();
  }
  if (auto recent = graph::FindRecentFailure(error.what())) return *recent;
  graph::FailureDetails details;
  details.code = dynamic_cast<const std::invalid_argument*>(&error) != nullptr
                     ? MLXCOMM_INVALID_ARGUMENT
                     : MLXCOMM_INTERNAL;
  std::string_view text = error.what();
  constexpr std::string_view kOwn = "[mlxcomm] ";
  if (text.starts_with(kOwn)) text.remove_prefix(kOwn.size());
  details.message = text;
  return details;
}

int Report(const graph::FailureDetails& details, const std::source_location& where) {
  Write(details, t_last);
  const std::string text = TextOf(details);
  const char* const outer = t_being_reported;  // A handler may call our functions.
  t_being_reported = text.c_str();
  _mlx_error(where.file_name(), static_cast<int>(where.line()), "%s", text.c_str());
  t_being_reported = outer;
  return 1;
}

const char* TextBeingReported() { return t_being_reported; }

}  // namespace mlxcomm::mlx_c

extern "C" {

void mlxcomm_mlx_last_error(mlxcomm_mlx_error* res) {
  if (res != nullptr) *res = mlxcomm::mlx_c::t_last;
}

int mlxcomm_mlx_find_error(mlxcomm_mlx_error* res, const char* text) {
  if (res == nullptr || text == nullptr) return 1;
  const auto found = mlxcomm::graph::FindRecentFailure(text);
  if (!found.has_value()) return 1;
  mlxcomm::mlx_c::Write(*found, *res);
  return 0;
}

}  // extern "C"
