// Shared by the fuzz targets: how they read their input, and how they report that a condition does
// not hold.
//
// An input is a script: numbers are read from its front in little-endian order, so that
// struct.pack writes one, and a change at its end leaves everything before it unchanged. Beyond the
// end, reads return zeros.
//
// Owner: a target. Thread: its one. Memory: Input is a view of libFuzzer's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

// For loops over bytes in a target: the fuzzer would learn nothing from them, and spend most of its
// time there.
#define MLXCOMM_NOT_TRACED __attribute__((noinline, no_sanitize("coverage")))

namespace mlxcomm::fuzz {

[[noreturn]] inline void Violated(const char* file, int line, const char* condition,
                                  const std::string& what) {
  std::fprintf(stderr, "\n%s:%d: violated: %s\n  it must hold that %s\n", file, line, condition,
               what.c_str());
  std::abort();
}

// For a target's own files: `run` makes one folder for each program, and removes it.
inline std::string TemporaryFolder() {
  const char* const named = std::getenv("TMPDIR");
  return named != nullptr ? named : "/tmp";
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t bytes) : rest_(data, bytes) {}

  bool empty() const { return rest_.empty(); }
  std::size_t size() const { return rest_.size(); }

  template <typename Value>
  Value Take() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value{};
    TakeInto(&value, sizeof value);
    return value;
  }
  std::uint8_t TakeByte() { return Take<std::uint8_t>(); }
  // 0 to most.
  std::uint8_t TakeUpTo(std::uint8_t most) {
    return static_cast<std::uint8_t>(TakeByte() % (most + 1u));
  }
  // Fewer at the end of the script; the rest of `to` is unchanged.
  void TakeInto(void* to, std::size_t bytes) {
    bytes = std::min(bytes, rest_.size());
    if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  std::span<const std::uint8_t> TakeBytes(std::size_t bytes) {
    const std::span<const std::uint8_t> taken = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::string TakeRest() {
    const std::span<const std::uint8_t> taken = TakeBytes(rest_.size());
    return {taken.begin(), taken.end()};
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace mlxcomm::fuzz

// The second argument completes the sentence "it must hold that ...", and is evaluated only when
// needed.
#define MLXCOMM_MUST(condition, what)                                    \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ::mlxcomm::fuzz::Violated(__FILE__, __LINE__, #condition, (what)); \
    }                                                                    \
  } while (false)
