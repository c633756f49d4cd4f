#include "client/lib/answer.h"

#include <new>
#include <system_error>

#include "proto/types/plain_text.h"

namespace mlxcomm::client {
namespace {

// Messages contain names that others chose. mlxcomm.h promises UTF-8, and Python would raise
// a different error for a message that is not valid.
void CopyText(std::string_view text, char* out, std::size_t capacity) {
  std::size_t used = 0;
  while (!text.empty() && used + 1 < capacity) {
    const std::string_view sound = Utf8Prefix(text, capacity - 1 - used);
    used += sound.copy(out + used, sound.size());
    text.remove_prefix(sound.size());
    const bool next_is_sound = !Utf8Prefix(text, 4).empty();
    if (text.empty() || next_is_sound || used + 1 == capacity) break;  // No room, or done.
    out[used++] = '?';
    text.remove_prefix(1);
  }
  out[used] = '\0';
}

mlxcomm_code Fill(mlxcomm_code code, std::int32_t rank, std::string_view text,
                  mlxcomm_error* error) {
  if (error != nullptr) {
    error->code = code;
    error->rank = rank;
    CopyText(text, error->message, sizeof error->message);
  }
  return code;
}

}  // namespace

mlxcomm_code Report(const Failure& failure, mlxcomm_error* error) {
  return Fill(static_cast<mlxcomm_code>(failure.code), failure.rank, failure.message, error);
}

mlxcomm_code ReportSuccess(mlxcomm_error* error) { return Fill(MLXCOMM_OK, kNoRank, {}, error); }

mlxcomm_code ReportException(mlxcomm_error* error) noexcept {
  mlxcomm_code code = MLXCOMM_INTERNAL;
  std::string_view text =
      "an unexpected exception: a bug in mlxcomm, or in a function passed to it";
  try {
    throw;
  } catch (const std::bad_alloc&) {
    code = MLXCOMM_RESOURCE_EXHAUSTED;
    text = "out of memory: raise this process's limit (ulimit -v), or end other programs here";
  } catch (const std::system_error&) {
    code = MLXCOMM_RESOURCE_EXHAUSTED;
    text = "cannot start a thread: raise this process's limit of threads (ulimit -u) or of memory";
  } catch (...) {  // NOLINT(bugprone-empty-catch): it is reported already.
  }
  return Fill(code, kNoRank, text, error);
}

Failure CheckName(const char* argument, std::string_view name, std::size_t bytes_max) {
  if (!name.empty() && name.size() <= bytes_max && IsPlainText(name)) return {};
  const bool is_long = name.size() > bytes_max;
  return Invalid(WhyWrong(
      argument, "1 to " + std::to_string(bytes_max) + " bytes of UTF-8 without control characters",
      is_long ? std::to_string(name.size()) + " bytes" : '"' + MakePrintable(name) + '"'));
}

}  // namespace mlxcomm::client
